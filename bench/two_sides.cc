#include "bench/two_sides.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/encryption.h"
#include "runtime/error.h"

namespace kerf::bench {

double seconds_since(runtime::Clock::time_point begin) {
  return std::chrono::duration<double>(runtime::Clock::now() - begin).count();
}

double processor_seconds() {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  double sum = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    KERF_CHECK(::getrusage(who, &usage) == 0);
    sum += seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  return sum;
}

Child::Child(const std::function<void(int)>& body) {
  int pair[2];
  KERF_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
  pid_ = ::fork();
  KERF_CHECK(pid_ >= 0);
  socket_ = pair[pid_ == 0 ? 1 : 0];
  ::close(pair[pid_ == 0 ? 0 : 1]);
  if (pid_ != 0) return;
  body(socket_);
  ::_exit(0);
}

Child::~Child() {
  ::close(socket_);
  ::waitpid(pid_, nullptr, 0);
}

void tell(int socket, const std::string& text) {
  KERF_CHECK(::send(socket, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
}

std::string hear(int socket) {
  char text[256];
  const ssize_t count = ::recv(socket, text, sizeof text, 0);
  KERF_CHECK(count > 0, "the other process ended");
  return {text, static_cast<size_t>(count)};
}

std::unique_ptr<runtime::Endpoint> open_side(runtime::TransportKind kind, int self,
                                             const runtime::Lane& lane, int socket, Guard guard) {
  auto endpoint = make_endpoint(kind, kerf::format("worker {}", self), runtime::make_cpu_device());
  tell(socket, endpoint->address());
  runtime::Wiring wiring;
  wiring.self = self;
  wiring.token = 4711;
  wiring.addresses[1 - self] = hear(socket);
  (self == 0 ? wiring.send : wiring.receive)[1 - self] = {lane};
  if (guard == Guard::kSummed) wiring.elsewhere = {1 - self};
  if (guard == Guard::kEncrypted)
    wiring.secrets[1 - self] = std::string(runtime::kSecretBytes, 's');
  endpoint->open(wiring, runtime::after(kPatience));
  return endpoint;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace kerf::bench
