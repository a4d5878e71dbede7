#include "runtime/tcp/tcp_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <tuple>

#include "runtime/error.h"

namespace kerf::runtime {
namespace {

constexpr std::string_view kScheme = "tcp://";
constexpr int kNonBlocking = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

[[noreturn]] void fail(const std::string& what) {
  const char* const way_out =
      errno == EMFILE ? "; raise the limit of open files with ulimit -n" : "";
  throw Error(ErrorCode::kUnavailable,
              kerf::format("{}: {}{}", what, std::strerror(errno), way_out));
}

using Resolved = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// `host` may stand in brackets, as IPv6 addresses do before a port.
Resolved resolve(std::string host, const std::string& port) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int result = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); result != 0)
    throw Error(ErrorCode::kUsage,
                kerf::format("'{}' is no address: {}", host, ::gai_strerror(result)));
  return {found, &::freeaddrinfo};
}

// Fails where the other side has closed already; whoever reads or writes finds that out.
void set(const OpenFile& socket, int level, int option, int value) {
  std::ignore = ::setsockopt(socket.number(), level, option, &value, sizeof value);
}

// So that a peer whose machine is gone is noticed. One that only does not read is waited for.
void set_liveness(const OpenFile& socket) {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
}

int port_of(const OpenFile& socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&bound), &length) != 0)
    fail("listening");
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

}  // namespace

OpenFile listen_tcp(const std::string& host, std::string& address) {
  const Resolved at = resolve(host, "0");
  OpenFile socket(::socket(at->ai_family, kNonBlocking, 0));
  if (socket.number() < 0 || ::bind(socket.number(), at->ai_addr, at->ai_addrlen) != 0 ||
      ::listen(socket.number(), SOMAXCONN) != 0)
    fail(kerf::format("listening on {}{}", kScheme, host));
  address = kerf::format("{}{}:{}", kScheme, host, port_of(socket));
  return socket;
}

std::optional<OpenFile> accept_tcp(const OpenFile& listener) {
  OpenFile socket(::accept4(listener.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.number() < 0) return std::nullopt;
  set_liveness(socket);
  return socket;
}

TcpAddress parse_tcp_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (!text.starts_with(kScheme) || colon < kScheme.size() || text.ends_with(":*"))
    throw Error(ErrorCode::kUsage,
                kerf::format("'{}' is not an address such as tcp://127.0.0.1:5555", text));
  const Resolved to =
      resolve(text.substr(kScheme.size(), colon - kScheme.size()), text.substr(colon + 1));
  TcpAddress address;
  std::memcpy(&address.socket, to->ai_addr, to->ai_addrlen);
  address.length = to->ai_addrlen;
  return address;
}

OpenFile begin_connect_tcp(const TcpAddress& address) {
  OpenFile socket(::socket(address.socket.ss_family, kNonBlocking, 0));
  if (socket.number() < 0) return socket;
  set_liveness(socket);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  const auto* const to = reinterpret_cast<const sockaddr*>(&address.socket);
  if (::connect(socket.number(), to, address.length) == 0 || errno == EINPROGRESS) return socket;
  const int error = errno;
  socket.close();
  errno = error;
  return socket;
}

bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

bool is_connected(const OpenFile& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return false;
  errno = error;
  return error == 0;
}

}  // namespace kerf::runtime
