#include "runtime/control.h"

#include <sys/random.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "runtime/error.h"

namespace kerf::runtime {
namespace {

bool is_port(const std::string& text) {
  if (text == "*") return true;
  if (text.empty() || text.size() > 5 ||
      !std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
    return false;
  const int port = std::stoi(text);
  return port > 0 && port <= 65535;
}

// 127.a.b.c with each part a number up to 255, and nothing else that merely begins with "127.".
bool is_loopback(const std::string& host) {
  if (host == "localhost" || host == "[::1]") return true;
  if (!host.starts_with("127.")) return false;
  int parts = 0;
  std::string part;
  for (const char c : host + ".") {
    if (c == '.') {
      if (part.empty() || part.size() > 3 || std::stoi(part) > 255) return false;
      ++parts;
      part.clear();
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      part += c;
    } else {
      return false;
    }
  }
  return parts == 4;
}

}  // namespace

void check_size(const ControlMessage& message) {
  KERF_CHECK(message.payload.size() <= largest_of(message.type),
             "a control message of {} bytes exceeds {}; large data belongs into a table or a "
             "channel",
             message.payload.size(), largest_of(message.type));
}

void check_local_address(const std::string& address) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kUsage, kerf::format("address '{}' {}", address, why));
  };
  if (address.starts_with("ipc://@")) {
    if (address.size() == 7 || address.size() > 100) refuse("needs a name of 1 to 93 characters");
    return;
  }
  if (!address.starts_with("tcp://"))
    refuse("is not of the form tcp://127.0.0.1:PORT or ipc://@NAME");
  const size_t colon = address.rfind(':');
  if (colon < 6 || !is_port(address.substr(colon + 1)))
    refuse("has no port: write tcp://127.0.0.1:PORT with PORT from 1 to 65535, or *");
  if (!is_loopback(address.substr(6, colon - 6)))
    refuse(
        "lies beyond this host: only loopback addresses are allowed until workers authenticate; "
        "use tcp://127.0.0.1:PORT");
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
