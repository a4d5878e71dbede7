// Sends what a worker of `kerf` says to workers of other hosts through a proxy of its own host: a
// library for its LD_PRELOAD, which sees connect(). Connections within the host, and that to the
// scheduler, it leaves alone.
//
//   KERF_PROXY="40001 5555 /tmp/x/told"   the proxy's port, the scheduler's, and a datagram socket
//                                         that is told "SOURCE-PORT ADDRESS PORT" of each
//
// Threads: any.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>

namespace {

struct Proxy {
  uint16_t port = 0;
  uint16_t scheduler = 0;
  std::string told;
};

std::optional<Proxy> proxy_of_environment() {
  const char* const value = std::getenv("KERF_PROXY");
  Proxy proxy;
  std::istringstream words(value == nullptr ? "" : value);
  if (!(words >> proxy.port >> proxy.scheduler >> proxy.told)) return {};
  return proxy;
}

bool is_stream(int socket) {
  int type = 0;
  socklen_t length = sizeof type;
  return ::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
}

void tell(const Proxy& proxy, int socket, const sockaddr_in& target) {
  sockaddr_in source{};
  socklen_t length = sizeof source;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&source), &length);
  char host[INET_ADDRSTRLEN];
  ::inet_ntop(AF_INET, &target.sin_addr, host, sizeof host);
  std::ostringstream text;
  text << ntohs(source.sin_port) << ' ' << host << ' ' << ntohs(target.sin_port);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  proxy.told.copy(to.sun_path, sizeof to.sun_path - 1);
  const int teller = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const std::string told = text.str();
  static_cast<void>(::sendto(teller, told.data(), told.size(), MSG_DONTWAIT,
                             reinterpret_cast<const sockaddr*>(&to), sizeof to));
  ::close(teller);
}

}  // namespace

extern "C" int connect(int socket, const sockaddr* address, socklen_t length) {
  static auto* const next = reinterpret_cast<decltype(connect)*>(::dlsym(RTLD_NEXT, "connect"));
  static const std::optional<Proxy> proxy = proxy_of_environment();
  sockaddr_in to{};
  if (!proxy || length < sizeof to || address->sa_family != AF_INET || !is_stream(socket))
    return next(socket, address, length);
  std::memcpy(&to, address, sizeof to);
  const bool is_within_host = ntohl(to.sin_addr.s_addr) >> 24 == 127;
  if (is_within_host || ntohs(to.sin_port) == proxy->scheduler)
    return next(socket, address, length);
  const sockaddr_in target = to;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(proxy->port);
  const int result = next(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  const int error = errno;
  if (result == 0 || error == EINPROGRESS) tell(*proxy, socket, target);
  errno = error;
  return result;
}
