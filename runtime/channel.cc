#include "runtime/channel.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "runtime/control.h"
#include "runtime/error.h"
#include "runtime/transports.h"

namespace kerf::runtime {
namespace {

constexpr std::array kTransports{TransportKind::kShm, TransportKind::kIpc, TransportKind::kTcp,
                                 TransportKind::kCuda, TransportKind::kInproc};
constexpr std::string_view kInprocScheme = "inproc://";

// What the addresses of its endpoints begin with.
std::string_view scheme_of(TransportKind kind) {
  return kind == TransportKind::kInproc ? kInprocScheme
         : kind == TransportKind::kTcp  ? "tcp://"
                                        : "ipc://@";
}

std::vector<std::string> words_of(const std::string& address) {
  if (address.starts_with(kInprocScheme)) return {address};  // which has a label in it
  std::vector<std::string> words;
  std::istringstream in(address);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// Empty: it may be one of an endpoint on `host`.
std::string objection_to(const std::string& word, const std::string& host) {
  try {
    check_address(word);
  } catch (const Error& error) {
    return "is no address";
  }
  const auto parts = split_tcp(word);
  if (!parts) return {};
  const auto there = HostAddress::parse(parts->host);
  if (!there) return "names a host where a number is due";
  const auto from = HostAddress::parse(host);
  if (!from && !host.empty())
    return kerf::format("is of a worker that speaks from {}, which is no number of a host", host);
  if (!from || from->is_loopback())
    return there->is_loopback() ? "" : "lies beyond this host, where its worker is";
  if (there == from) return {};
  return kerf::format(
      "is not on {}, where its worker speaks from: between hosts of a run there may be no NAT, and "
      "no tunnel of one port",
      host);
}

std::string names_of(const std::vector<TransportKind>& kinds) {
  std::vector<std::string_view> names;
  for (const TransportKind kind : kinds) names.push_back(to_string(kind));
  return kerf::format("{}", fmt::join(names, " and "));
}

}  // namespace

std::string_view to_string(TransportKind kind) {
  switch (kind) {
    case TransportKind::kInproc:
      return "inproc";
    case TransportKind::kShm:
      return "shm";
    case TransportKind::kIpc:
      return "ipc";
    case TransportKind::kTcp:
      return "tcp";
    case TransportKind::kCuda:
      return "cuda";
  }
  return "unknown";
}

TransportKind parse_transport(const std::string& name) {
  for (TransportKind kind : kTransports)
    if (to_string(kind) == name) return kind;
  throw Error(
      ErrorCode::kUsage,
      kerf::format("there is no transport '{}'; choose shm, ipc, tcp, cuda or inproc", name));
}

bool mirrors_slots(TransportKind kind) {
  return kind == TransportKind::kIpc || kind == TransportKind::kTcp;
}

TransportKind by_host_memory(TransportKind kind) {
  return kind == TransportKind::kCuda ? TransportKind::kShm : kind;
}

std::vector<TransportKind> by_host_memory(std::vector<TransportKind> kinds) {
  for (TransportKind& kind : kinds) kind = by_host_memory(kind);
  std::ranges::sort(kinds);
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  return kinds;
}

void check_endpoint_address(const std::vector<TransportKind>& kinds, const std::string& address,
                            const std::string& host) {
  const auto refuse = [](const std::string& what, const std::string& why) {
    throw Error(ErrorCode::kProtocol, kerf::format("'{}' {}", what.substr(0, 100), why));
  };
  const std::vector<std::string> words = words_of(address);
  std::set<std::string_view> schemes;
  for (const TransportKind kind : kinds) schemes.insert(scheme_of(kind));
  for (const std::string& word : words) {
    const auto scheme = std::ranges::find_if(
        schemes, [&](std::string_view each) { return word.starts_with(each); });
    if (scheme == schemes.end() || word.ends_with(":*"))
      refuse(address, kerf::format("is not an address of an endpoint over {}", names_of(kinds)));
    const std::string why = *scheme == kInprocScheme ? "" : objection_to(word, host);
    if (!why.empty()) refuse(word, why);
    schemes.erase(scheme);
  }
  if (!schemes.empty())
    refuse(address, kerf::format("is not an address of an endpoint over {}", names_of(kinds)));
}

std::string address_over(TransportKind kind, const std::string& address) {
  for (const std::string& word : words_of(address))
    if (word.starts_with(scheme_of(kind))) return word;
  throw Error(ErrorCode::kProtocol, kerf::format("'{}' has no way there over {}",
                                                 address.substr(0, 100), to_string(kind)));
}

ChannelCounters& ChannelCounters::operator+=(const ChannelCounters& more) {
  messages += more.messages;
  bytes += more.bytes;
  control_messages += more.control_messages;
  resent += more.resent;
  dropped += more.dropped;
  return *this;
}

std::unique_ptr<Endpoint> make_endpoint(const std::vector<TransportKind>& kinds,
                                        const std::string& label, std::shared_ptr<Device> device,
                                        const std::shared_ptr<InprocHub>& hub,
                                        const std::string& host) {
  KERF_CHECK(!kinds.empty(), "{} needs a transport", label);
  if (std::ranges::count(kinds, TransportKind::kInproc) > 0) {
    KERF_CHECK(kinds.size() == 1, "{}: threads reach threads alone", label);
    return make_inproc_endpoint(label, std::move(device), hub);
  }
  SlotStores stores;
  for (const TransportKind kind : kinds) {
    if (std::ranges::count(kTransports, kind) == 0)
      throw Error(ErrorCode::kProtocol, "it is to be for a transport that there is not", label);
    stores[kind] = kind == TransportKind::kShm    ? make_shm_slots(device)
                   : kind == TransportKind::kCuda ? make_device_slots(device)
                                                  : make_own_slots();
  }
  return make_link_endpoint(label, std::move(device), std::move(stores), host);
}

std::unique_ptr<Endpoint> make_endpoint(TransportKind kind, const std::string& label,
                                        std::shared_ptr<Device> device,
                                        const std::shared_ptr<InprocHub>& hub,
                                        const std::string& host) {
  return make_endpoint(std::vector{kind}, label, std::move(device), hub, host);
}

}  // namespace kerf::runtime
