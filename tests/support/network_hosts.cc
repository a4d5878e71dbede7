#include "tests/support/network_hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <stdexcept>

#include "runtime/format.h"

namespace kerf::tests {
namespace {

// On a thread of its own, whose network is nobody else's.
template <class Action>
auto on_thread(const Action& action) {
  return std::async(std::launch::async, action).get();
}

void check(bool fine, const std::string& what) {
  if (!fine) throw std::runtime_error(kerf::format("{}: {}", what, std::strerror(errno)));
}

runtime::OpenFile make_network() {
  return on_thread([] {
    check(::unshare(CLONE_NEWNET) == 0, "this process may make no networks");
    runtime::OpenFile network(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    check(network.number() >= 0, "a new network");
    return network;
  });
}

void enter_network(const runtime::OpenFile& network) {
  check(::setns(network.number(), CLONE_NEWNET) == 0, "entering a network");
}

// `ip ARGUMENTS` in a network.
void ip(const runtime::OpenFile& network, const std::string& arguments) {
  on_thread([&] {
    enter_network(network);
    const int status = std::system(("ip " + arguments + " 2>/dev/null").c_str());
    if (status != 0) throw std::runtime_error("this machine refuses: ip " + arguments);
  });
}

}  // namespace

NetworkHosts::NetworkHosts(int count) : bridge_(make_network()) {
  ip(bridge_, "link add bridge type bridge");
  ip(bridge_, "link set bridge up");
  const std::string bridge = kerf::format("/proc/{}/fd/{}", ::getpid(), bridge_.number());
  for (int host = 0; host < count; ++host) {
    hosts_.push_back(make_network());
    const auto& here = hosts_.back();
    ip(here, "link set lo up");
    ip(here, kerf::format("link add eth0 type veth peer name to{} netns {}", host, bridge));
    ip(bridge_, kerf::format("link set to{} master bridge up", host));
    ip(here, kerf::format("address add {}/24 dev eth0", address(host)));
    const std::string six = address6(host);
    ip(here, kerf::format("address add {}/64 dev eth0 nodad", six.substr(1, six.size() - 2)));
    ip(here, "link set eth0 up");
  }
}

void NetworkHosts::enter(int host) const { enter_network(hosts_.at(static_cast<size_t>(host))); }

}  // namespace kerf::tests
