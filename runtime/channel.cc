#include "runtime/channel.h"

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

std::unique_ptr<Endpoint> make_endpoint(TransportKind kind, const std::string& label,
                                        const std::shared_ptr<InprocHub>& hub) {
  switch (kind) {
    case TransportKind::kInproc:
      return make_inproc_endpoint(label, hub);
    case TransportKind::kShm:
      return make_shm_endpoint(label);
    case TransportKind::kIpc:
      return make_zmq_endpoint(label, "ipc");
    case TransportKind::kTcp:
      return make_zmq_endpoint(label, "tcp");
  }
  throw Error(ErrorCode::kInternal, "an unknown transport");
}

}  // namespace kerf::runtime
