// Addresses of hosts as numbers, and which of its own a host has towards another.
//
// Plain values and pure functions, but for the last two. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kerf::runtime {

inline constexpr const char* kLoopbackHost = "127.0.0.1";

class HostAddress {
 public:
  // "10.0.0.1", "fd00::1" or, as before a port, "[fd00::1]". Empty for all else: names, short forms
  // such as 127.1, and zones such as fe80::1%eth0.
  static std::optional<HostAddress> parse(std::string_view text);

  bool is_loopback() const;
  // 0.0.0.0 or [::]: every interface.
  bool is_any() const;
  // As before a port. An IPv4 address within IPv6 is that IPv4 address.
  std::string text() const;
  bool operator==(const HostAddress&) const = default;

 private:
  std::array<uint8_t, 16> bytes_{};  // of IPv6; an IPv4 address is ::ffff:a.b.c.d
};

struct TcpAddress {
  std::string host;
  std::string port;  // of decimal digits, within 1 and 65535, or "*"
};
// Of "tcp://HOST:PORT"; empty for what is none.
std::optional<TcpAddress> split_tcp(const std::string& address);
// Whether nobody beyond this host can be there.
bool is_loopback_host(const std::string& host);

// Of a name or a number, its number, as before a port; what ZeroMQ would connect to. Throws
// Error{kUnavailable} that names it.
std::string number_of_host(const std::string& host);

// The address of this host that packets to `scheduler` leave from; loopback unless that is
// tcp://HOST:PORT beyond it. Sends nothing. Throws Error{kUnavailable} that names the host.
std::string host_towards(const std::string& scheduler);

}  // namespace kerf::runtime
