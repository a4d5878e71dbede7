#include "tests/support/tcp_proxy.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <list>
#include <vector>

#include "runtime/error.h"

namespace kerf::tests {
namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// One direction of a relayed connection: at most one buffer is held, read before it is written.
struct Flow {
  int from;
  int to;
  std::vector<char> held;

  short wants_from() const { return held.empty() ? POLLIN : 0; }
  short wants_to() const { return held.empty() ? 0 : POLLOUT; }
  // Where `swallowed` is given, what comes is thrown away and counted there.
  bool move(short from_events, short to_events, std::atomic<int64_t>* swallowed,
            const std::function<void(std::vector<char>&)>& harm = {}) {
    if (held.empty() && (from_events & (POLLIN | POLLHUP | POLLERR)) != 0) {
      std::array<char, 64 << 10> buffer;
      const ssize_t count = ::recv(from, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (count <= 0) return false;
      if (swallowed != nullptr)
        *swallowed += count;
      else
        held.assign(buffer.data(), buffer.data() + count);
      if (harm) harm(held);
    } else if (!held.empty() && (to_events & POLLOUT) != 0) {
      const ssize_t count = ::send(to, held.data(), held.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0) return false;
      held.erase(held.begin(), held.begin() + count);
    }
    return true;
  }
};

class Relay {
 public:
  Relay(int client, uint16_t port) : client_(client), server_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const sockaddr_in address = loopback(port);
    alive_ = ::connect(server_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    const linger reset{1, 0};  // close() sends RST: no orderly end
    for (const int end : {client_, server_}) {
      ::setsockopt(end, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      ::close(end);
    }
  }
  bool alive() const { return alive_; }
  void add_to(std::vector<pollfd>& polled) const {
    polled.push_back({client_, static_cast<short>(up_.wants_from() | down_.wants_to()), 0});
    polled.push_back({server_, static_cast<short>(down_.wants_from() | up_.wants_to()), 0});
  }
  void move(short client_events, short server_events, std::atomic<int64_t>* swallowed,
            const std::function<void(std::vector<char>&)>& harm) {
    std::atomic<int64_t> lost = 0;
    alive_ = up_.move(client_events, server_events, is_half_closed_ ? &lost : swallowed, harm) &&
             down_.move(server_events, client_events, swallowed);
  }
  void answer() const { ::send(client_, "?", 1, MSG_DONTWAIT | MSG_NOSIGNAL); }
  void half_close() {
    ::shutdown(server_, SHUT_WR);
    up_.held.clear();
    is_half_closed_ = true;
  }

 private:
  int client_;
  int server_;
  bool alive_ = false;
  bool is_half_closed_ = false;
  Flow up_{client_, server_, {}};
  Flow down_{server_, client_, {}};
};

}  // namespace

TcpProxy::TcpProxy(const std::string& target)
    : target_port_(static_cast<uint16_t>(std::stoi(target.substr(target.rfind(':') + 1)))),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  KERF_CHECK(::bind(listener_, any, length) == 0 && ::listen(listener_, 16) == 0 &&
             ::getsockname(listener_, any, &length) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

TcpProxy::~TcpProxy() {
  thread_.request_stop();
  event_.signal();
  thread_.join();
  ::close(listener_);
}

std::string TcpProxy::address() const { return kerf::format("tcp://127.0.0.1:{}", port_); }

void TcpProxy::run(const std::stop_token& stop) {
  std::list<Relay> relays;
  while (!stop.stop_requested()) {
    std::vector<pollfd> polled{{listener_, POLLIN, 0}, {event_.descriptor(), POLLIN, 0}};
    for (const Relay& relay : relays) relay.add_to(polled);
    ::poll(polled.data(), polled.size(), 1'000);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms_.load()));
    if (event_.taken()) {
      if (is_half_closing_.exchange(false)) {
        for (Relay& relay : relays) relay.half_close();
        continue;
      }
      if (is_answering_.exchange(false)) {
        for (const Relay& relay : relays) relay.answer();
        continue;
      }
      cuts_ += static_cast<int64_t>(relays.size());
      relays.clear();
      swallowing_ = false;
      continue;
    }
    size_t i = 2;
    for (Relay& relay : relays) {
      relay.move(polled[i].revents, polled[i + 1].revents, swallowing_ ? &swallowed_ : nullptr,
                 [this](std::vector<char>& bytes) { harm(bytes); });
      i += 2;
    }
    relays.remove_if([](const Relay& relay) { return !relay.alive(); });
    if ((polled[0].revents & POLLIN) == 0) continue;
    relays.emplace_back(::accept(listener_, nullptr, nullptr), target_port_);
    ++accepted_;
  }
}

void TcpProxy::harm(std::vector<char>& bytes) {
  const int64_t every = damage_every_;
  if (every == 0) return;
  const auto size = static_cast<int64_t>(bytes.size());
  const auto distance = [&] { return every / 2 + static_cast<int64_t>(random_() % every); };
  if (harm_in_ < 0) harm_in_ = distance();
  for (; harm_in_ < size; harm_in_ += distance()) {
    char& byte = bytes[static_cast<size_t>(harm_in_)];
    byte = static_cast<char>(byte ^ (1 << (damaged_ % 8)));
    ++damaged_;
  }
  harm_in_ -= size;
}

}  // namespace kerf::tests
