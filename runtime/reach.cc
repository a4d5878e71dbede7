#include "runtime/reach.h"

#include <unistd.h>

#include <array>
#include <fstream>

#include "runtime/error.h"

namespace kerf::runtime {
namespace {

[[noreturn]] void refuse_to_guess(const char* path) {
  throw Error(ErrorCode::kUnavailable,
              "it cannot be read, and without it nothing tells this host from others: mount /proc",
              path);
}

std::string this_boot() {
  constexpr const char* kPath = "/proc/sys/kernel/random/boot_id";
  std::ifstream in(kPath);
  std::string line;
  std::getline(in, line);
  if (line.empty()) refuse_to_guess(kPath);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, 64> text{};
  const ssize_t length = ::readlink(path, text.data(), text.size());
  if (length <= 0) refuse_to_guess(path);
  return {text.data(), static_cast<size_t>(length)};
}

std::string this_network() {
  return kerf::format("{} {}", this_boot(), link_target("/proc/self/ns/net"));
}

// Users have numbers that say who they are within a namespace of users alone.
std::string these_sockets() {
  return kerf::format("{} {} {} {}", this_network(), ::geteuid(), ::getegid(),
                      link_target("/proc/self/ns/user"));
}

// Containers of one host have its boot, processes of their own, and mostly networks of their own.
std::string this_host() {
  return kerf::format("{} {}", these_sockets(), link_target("/proc/self/ns/pid"));
}

// Why the pair cannot; empty where it can.
std::string objection(TransportKind kind, const Reach& a, const Reach& b) {
  const bool by_sockets =
      kind == TransportKind::kShm || kind == TransportKind::kIpc || kind == TransportKind::kCuda;
  if (by_sockets && a.sockets != b.sockets)
    return "they do not share a host (or not its user and network)";
  if (kind != TransportKind::kCuda) return {};
  if (a.host != b.host) return "they do not share a host's processes, as two containers do not";
  if (a.gpu.empty() || a.gpu != b.gpu) return "they do not compute on one GPU";
  return {};
}

}  // namespace

Reach reach_of(const std::string& device) {
  Reach reach{.host = this_host(), .network = this_network(), .sockets = these_sockets()};
  try {
    reach.gpu = device_identity(device);
  } catch (const Error&) {
    // Whoever opens it is told.
  }
  return reach;
}

std::vector<TransportKind> endpoint_kinds(std::optional<TransportKind> wanted, bool local,
                                          const Reach& reach) {
  if (wanted) return {*wanted};
  std::vector<TransportKind> kinds{TransportKind::kShm};
  if (!local) kinds.push_back(TransportKind::kTcp);
  if (!reach.gpu.empty()) kinds.push_back(TransportKind::kCuda);
  return kinds;
}

TransportKind transport_between(std::optional<TransportKind> wanted, const Neighbour& a,
                                const Neighbour& b) {
  if (wanted) {
    const std::string why = objection(*wanted, a.reach, b.reach);
    if (why.empty()) return *wanted;
    throw Error(
        ErrorCode::kUnavailable,
        kerf::format("{} and {} cannot exchange messages over {}: {}; leave out --transport, "
                     "and each pair gets what it can",
                     a.name, b.name, to_string(*wanted), why));
  }
  for (const TransportKind kind : {TransportKind::kCuda, TransportKind::kShm})
    if (objection(kind, a.reach, b.reach).empty()) return kind;
  return TransportKind::kTcp;
}

void check_way(const Neighbour& from, const Neighbour& to, const std::string& address) {
  const auto parts = split_tcp(address);
  if (!parts || !is_loopback_host(parts->host) || from.reach.network == to.reach.network) return;
  throw Error(ErrorCode::kUnavailable,
              kerf::format("{} and {} are of different networks, and {} speaks from {}, where {} "
                           "would find its own host; let workers connect to an address of the "
                           "scheduler in their network, and through no tunnel",
                           from.name, to.name, to.name, parts->host, from.name));
}

}  // namespace kerf::runtime
