#include "runtime/control.h"

#include <sys/random.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "runtime/error.h"
#include "runtime/host_address.h"

namespace kerf::runtime {
namespace {

[[noreturn]] void refuse(const std::string& address, const std::string& why) {
  throw Error(ErrorCode::kUsage, kerf::format("address '{}' {}", address, why));
}

// Whether it is a name's letters or a number. What looks like a number but is none (127.1) means
// different things to different libraries.
bool is_host(const std::string& host) {
  if (HostAddress::parse(host)) return host.starts_with('[') || host.find(':') == std::string::npos;
  const auto is_of_names = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  };
  const auto is_of_numbers = [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; };
  return std::ranges::all_of(host, is_of_names) && !std::ranges::all_of(host, is_of_numbers);
}

bool is_every_interface(const std::string& host) {
  const auto number = HostAddress::parse(host);
  return host == "*" || (number && number->is_any());
}

}  // namespace

void check_size(const ControlMessage& message) {
  KERF_CHECK(message.payload.size() <= largest_of(message.type),
             "a control message of {} bytes exceeds {}; large data belongs into a table or a "
             "channel",
             message.payload.size(), largest_of(message.type));
}

bool is_local_address(const std::string& address) {
  const auto parts = split_tcp(address);
  return !parts || is_loopback_host(parts->host);
}

void check_address(const std::string& address) {
  if (address.starts_with("ipc://@")) {
    if (address.size() == 7 || address.size() > 100)
      refuse(address, "needs a name of 1 to 93 characters");
    return;
  }
  if (!address.starts_with("tcp://"))
    refuse(address, "is not of the form tcp://HOST:PORT or ipc://@NAME");
  const auto parts = split_tcp(address);
  const char* const without_host = "has no name or number of a host before its port";
  if (address.starts_with("tcp://:")) refuse(address, without_host);
  if (!parts)
    refuse(address,
           "has no port up to 65535: write tcp://HOST:PORT, where 0 is any that is free to a "
           "scheduler");
  if (is_every_interface(parts->host))
    refuse(address, "means every interface of this host: name the one that workers come by");
  if (!is_host(parts->host)) refuse(address, without_host);
}

void check_local_address(const std::string& address) {
  check_address(address);
  if (!is_local_address(address)) refuse(address, "lies beyond this host");
}

void check_control_address(const std::string& address, bool has_keys) {
  check_address(address);
  if (!has_keys && !is_local_address(address))
    refuse(address,
           "lies beyond this host, where workers need keys: make them with `kerf keys make DIR`, "
           "and give --keys DIR to the run and to each worker");
}

uint64_t random_bits() {
  uint64_t bits = 0;
  while (::getrandom(&bits, sizeof bits, 0) != sizeof bits)
    if (errno != EINTR) throw Error(ErrorCode::kUnavailable, "the kernel gives no random numbers");
  return bits;
}

std::string random_local_address() {
  return kerf::format("ipc://@kerf-{:016x}{:016x}", random_bits(), random_bits());
}

}  // namespace kerf::runtime
