#include "runtime/sockets/stream_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <tuple>

#include "runtime/error.h"

namespace kerf::runtime {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kIpc = "ipc://@";
// Room in a connection within a host, of which the system gives what it allows (416 KiB where
// nobody changed that): a chunk in fewer pieces takes 0.8 of the time. That of TCP grows by itself.
constexpr int kAskedFor = 1 << 20;
constexpr int kNonBlocking = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

[[noreturn]] void throw_refused(const std::string& what) {
  const int error = errno;
  throw Error(ErrorCode::kUnavailable,
              kerf::format("{}: {}{}", what, std::strerror(error), remedy_of(error)));
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

const sockaddr* any(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.socket);
}

SocketAddress parse_tcp(const std::string& text) {
  const size_t colon = text.rfind(':');
  const Resolved to =
      resolve(text.substr(kTcp.size(), colon - kTcp.size()), text.substr(colon + 1));
  SocketAddress address;
  std::memcpy(&address.socket, to->ai_addr, to->ai_addrlen);
  address.length = to->ai_addrlen;
  return address;
}

// A name behind a zero has no file.
SocketAddress parse_ipc(const std::string& text) {
  const std::string_view name = std::string_view(text).substr(kIpc.size());
  SocketAddress address;
  auto& to = reinterpret_cast<sockaddr_un&>(address.socket);
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, name.data(), name.size());
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

OpenFile listen_at(const SocketAddress& address, const std::string& text) {
  OpenFile socket(::socket(address.socket.ss_family, kNonBlocking, 0));
  if (socket.number() < 0 || ::bind(socket.number(), any(address), address.length) != 0 ||
      ::listen(socket.number(), SOMAXCONN) != 0)
    throw_refused(kerf::format("listening on {}", text));
  return socket;
}

// An abstract name is open to everybody of the host who knows it.
bool is_of_this_user(const OpenFile& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket.number(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

int port_of(const OpenFile& socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&bound), &length) != 0)
    throw_refused("listening");
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

}  // namespace

SocketAddress parse_socket_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (text.starts_with(kTcp) && colon >= kTcp.size() && !text.ends_with(":*"))
    return parse_tcp(text);
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (text.starts_with(kIpc) && text.size() > kIpc.size() && text.size() - kIpc.size() <= kLongest)
    return parse_ipc(text);
  throw Error(
      ErrorCode::kUsage,
      kerf::format("'{}' is not an address such as tcp://127.0.0.1:5555 or ipc://@name", text));
}

OpenFile listen_tcp(const std::string& host, std::string& address) {
  const Resolved at = resolve(host, "0");
  SocketAddress to;
  std::memcpy(&to.socket, at->ai_addr, at->ai_addrlen);
  to.length = at->ai_addrlen;
  OpenFile socket = listen_at(to, kerf::format("{}{}", kTcp, host));
  address = kerf::format("{}{}:{}", kTcp, host, port_of(socket));
  return socket;
}

OpenFile listen_ipc(const std::string& address) {
  return listen_at(parse_socket_address(address), address);
}

std::optional<OpenFile> accept_connection(const OpenFile& listener) {
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  OpenFile socket(::accept4(listener.number(), reinterpret_cast<sockaddr*>(&from), &length,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.number() < 0) return std::nullopt;
  if (from.ss_family != AF_UNIX) {
    set_liveness(socket);
  } else if (!is_of_this_user(socket)) {
    socket.close();
    errno = EACCES;
    return std::nullopt;
  }
  return socket;
}

OpenFile begin_connect(const SocketAddress& address) {
  OpenFile socket(::socket(address.socket.ss_family, kNonBlocking, 0));
  if (socket.number() < 0) return socket;
  if (address.socket.ss_family != AF_UNIX) {
    set_liveness(socket);
    set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  } else {
    set(socket, SOL_SOCKET, SO_SNDBUF, kAskedFor);
  }
  const int result = ::connect(socket.number(), any(address), address.length);
  const bool is_local = address.socket.ss_family == AF_UNIX;
  if (result == 0 && (!is_local || is_of_this_user(socket))) return socket;
  if (result != 0 && errno == EINPROGRESS) return socket;
  const int error = result == 0 ? EACCES : errno;
  socket.close();
  errno = error;
  return socket;
}

bool is_local(const OpenFile& socket) {
  int domain = 0;
  socklen_t length = sizeof domain;
  return ::getsockopt(socket.number(), SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
         domain == AF_UNIX;
}

bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
         error == ENOSPC;
}

std::string remedy_of(int error) {
  if (error == EMFILE) return "; raise the limit of open files with ulimit -n";
  if (error == ENOSPC) return "; raise fs.epoll.max_user_watches with sysctl";
  return {};
}

bool is_connected(const OpenFile& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return false;
  errno = error;
  return error == 0;
}

}  // namespace kerf::runtime
