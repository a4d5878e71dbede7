#include "runtime/host_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>

#include "runtime/error.h"
#include "runtime/open_file.h"

namespace kerf::runtime {
namespace {

constexpr std::string_view kTcpScheme = "tcp://";
constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_port(const std::string& text) {
  if (text == "*") return true;
  if (text.empty() || text.size() > 5 ||
      !std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
    return false;
  const int port = std::stoi(text);
  return port > 0 && port <= 65535;
}

bool is_mapped(const std::array<uint8_t, 16>& bytes) {
  return std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
}

[[noreturn]] void fail(const std::string& host, const std::string& why) {
  throw Error(ErrorCode::kUnavailable, kerf::format("no way to host '{}': {}", host, why));
}

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// As ZeroMQ finds it, which takes a name for IPv4's.
Found find_host(const TcpAddress& to) {
  std::string host = to.host;
  const bool in_brackets = host.starts_with('[') && host.ends_with(']');
  if (in_brackets) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = in_brackets ? AF_INET6 : AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int result = ::getaddrinfo(host.c_str(), to.port.c_str(), &hints, &found); result != 0)
    fail(to.host, ::gai_strerror(result));
  return {found, &::freeaddrinfo};
}

std::string text_of(const sockaddr& at) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* const bytes =
      at.sa_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(at).sin6_addr)
          : &reinterpret_cast<const sockaddr_in&>(at).sin_addr;
  return HostAddress::parse(::inet_ntop(at.sa_family, bytes, text.data(), text.size()))->text();
}

}  // namespace

std::optional<HostAddress> HostAddress::parse(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
    if (text.find(':') == std::string_view::npos) return std::nullopt;
  }
  const std::string host(text);
  HostAddress address;
  if (::inet_pton(AF_INET6, host.c_str(), address.bytes_.data()) == 1) return address;
  std::copy(kMapped.begin(), kMapped.end(), address.bytes_.begin());
  if (::inet_pton(AF_INET, host.c_str(), &address.bytes_[kMapped.size()]) == 1) return address;
  return std::nullopt;
}

bool HostAddress::is_loopback() const {
  if (is_mapped(bytes_)) return bytes_[12] == 127;
  return std::memcmp(bytes_.data(), &in6addr_loopback, bytes_.size()) == 0;
}

bool HostAddress::is_any() const {
  const size_t first = is_mapped(bytes_) ? kMapped.size() : 0;
  return std::all_of(bytes_.begin() + first, bytes_.end(), [](uint8_t byte) { return byte == 0; });
}

std::string HostAddress::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_mapped(bytes_))
    return ::inet_ntop(AF_INET, &bytes_[kMapped.size()], text.data(), text.size());
  return kerf::format("[{}]", ::inet_ntop(AF_INET6, bytes_.data(), text.data(), text.size()));
}

std::optional<TcpAddress> split_tcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (!address.starts_with(kTcpScheme) || colon <= kTcpScheme.size()) return std::nullopt;
  TcpAddress parts{address.substr(kTcpScheme.size(), colon - kTcpScheme.size()),
                   address.substr(colon + 1)};
  if (!is_port(parts.port)) return std::nullopt;
  return parts;
}

bool is_loopback_host(const std::string& host) {
  const auto address = HostAddress::parse(host);
  return address ? address->is_loopback() : host == "localhost";
}

std::string number_of_host(const std::string& host) {
  return text_of(*find_host({host, "1"})->ai_addr);
}

std::string host_towards(const std::string& scheduler) {
  const auto to = split_tcp(scheduler);
  if (!to) return kLoopbackHost;
  const Found there = find_host(*to);
  const OpenFile socket(::socket(there->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage here{};
  socklen_t length = sizeof here;
  // A datagram socket that connects only looks up the way.
  if (socket.number() < 0 || ::connect(socket.number(), there->ai_addr, there->ai_addrlen) != 0 ||
      ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&here), &length) != 0)
    fail(to->host, std::strerror(errno));
  return text_of(reinterpret_cast<const sockaddr&>(here));
}

}  // namespace kerf::runtime
