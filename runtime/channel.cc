#include "runtime/channel.h"

#include "runtime/control.h"
#include "runtime/error.h"
#include "runtime/transports.h"

namespace kerf::runtime {
namespace {

constexpr std::array kTransports{TransportKind::kInproc, TransportKind::kShm, TransportKind::kIpc,
                                 TransportKind::kTcp};

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
  }
  return "unknown";
}

TransportKind parse_transport(const std::string& name) {
  for (TransportKind kind : kTransports)
    if (to_string(kind) == name) return kind;
  throw Error(ErrorCode::kUsage,
              kerf::format("there is no transport '{}'; choose shm, ipc, tcp or inproc", name));
}

bool mirrors_slots(TransportKind kind) {
  return kind == TransportKind::kIpc || kind == TransportKind::kTcp;
}

void check_endpoint_address(TransportKind kind, const std::string& address) {
  const std::string_view scheme = kind == TransportKind::kInproc ? "inproc://"
                                  : kind == TransportKind::kTcp  ? "tcp://"
                                                                 : "ipc://@";
  if (!address.starts_with(scheme) || address.ends_with(":*"))
    throw Error(ErrorCode::kProtocol, kerf::format("'{}' is not an address of an endpoint over {}",
                                                   address.substr(0, 100), to_string(kind)));
  if (kind == TransportKind::kInproc) return;
  try {
    check_local_address(address);
  } catch (const Error& error) {
    throw Error(ErrorCode::kProtocol, error.message());
  }
}

ChannelCounters& ChannelCounters::operator+=(const ChannelCounters& more) {
  messages += more.messages;
  bytes += more.bytes;
  control_messages += more.control_messages;
  resent += more.resent;
  dropped += more.dropped;
  return *this;
}

std::unique_ptr<Endpoint> make_endpoint(TransportKind kind, const std::string& label,
                                        std::shared_ptr<Device> device,
                                        const std::shared_ptr<InprocHub>& hub) {
  switch (kind) {
    case TransportKind::kInproc:
      return make_inproc_endpoint(label, std::move(device), hub);
    case TransportKind::kShm:
      return make_shm_endpoint(label, std::move(device));
    case TransportKind::kIpc:
      return make_zmq_endpoint(label, "ipc", std::move(device));
    case TransportKind::kTcp:
      return make_zmq_endpoint(label, "tcp", std::move(device));
  }
  throw Error(ErrorCode::kInternal, "an unknown transport");
}

}  // namespace kerf::runtime
