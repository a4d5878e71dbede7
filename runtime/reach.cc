#include "runtime/reach.h"

#include <unistd.h>

#include <array>
#include <fstream>

#include "runtime/error.h"

namespace kerf::runtime {
namespace {

std::string first_line(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, 64> text{};
  const ssize_t length = ::readlink(path, text.data(), text.size());
  return {text.data(), length < 0 ? 0 : static_cast<size_t>(length)};
}

// Containers of one host have its boot, and processes and networks of their own.
std::string this_host() {
  return kerf::format("{} {} {} {} {} {}", first_line("/proc/sys/kernel/random/boot_id"),
                      ::geteuid(), ::getegid(), link_target("/proc/self/ns/user"),
                      link_target("/proc/self/ns/pid"), link_target("/proc/self/ns/net"));
}

// Why the pair cannot; empty where it can.
std::string objection(TransportKind kind, const Reach& a, const Reach& b) {
  const bool here =
      kind == TransportKind::kShm || kind == TransportKind::kIpc || kind == TransportKind::kCuda;
  if (here && a.host != b.host)
    return "they do not share a host (or not its user, processes and network)";
  if (kind == TransportKind::kCuda && (a.gpu.empty() || a.gpu != b.gpu))
    return "they do not compute on one GPU";
  return {};
}

}  // namespace

Reach reach_of(const std::string& device) {
  try {
    return {this_host(), device_identity(device)};
  } catch (const Error&) {
    return {this_host(), {}};
  }
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

}  // namespace kerf::runtime
