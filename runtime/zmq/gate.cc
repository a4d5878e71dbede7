#include "runtime/zmq/gate.h"

#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "runtime/error.h"
#include "runtime/zmq/socket.h"

namespace kerf::runtime {
namespace {

constexpr const char* kRequests = "inproc://zeromq.zap.01";
constexpr const char* kEvents = "inproc://kerf-gate-events";
constexpr const char* kDomain = "kerf";
// ZMQ_ZAP_ENFORCE_DOMAIN, which the headers of some versions leave out: where nobody answers,
// nobody gets in. A ZeroMQ without it changes nothing; then the gate must be there, as it is.
constexpr int kEnforceDomain = 93;
// A connection that shows no key takes a descriptor for so long.
constexpr int kGuardedHandshakeMs = 1'000;
constexpr int kFailures = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                          ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

// Frames of a request (RFC 27).
enum : size_t { kVersion, kRequestId, kDomainName, kFrom, kIdentity, kMechanism, kKey, kFrames };

// All frames of the next message; none if there is none.
std::vector<std::string> receive_frames(zmq::socket_t& socket) {
  std::vector<std::string> frames;
  zmq::message_t frame;
  bool more = receive_now(socket, frame);
  while (more) {
    frames.push_back(frame.to_string());
    more = frame.more() && receive_now(socket, frame);
  }
  return frames;
}

Refusal reason_of(uint32_t protocol_error) {
  if (protocol_error == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) return Refusal::kNoKey;
  if (protocol_error == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC) return Refusal::kOtherScheduler;
  return Refusal::kNoWorker;
}

}  // namespace

Gate::Gate(zmq::context_t& context, zmq::socket_t& server, SchedulerKeys keys, RefusalLog& log)
    : keys_(std::move(keys)),
      log_(log),
      requests_(make_socket(context, zmq::socket_type::rep, {})),
      events_(make_socket(context, zmq::socket_type::pair, {})) {
  try {
    requests_.bind(kRequests);
    guard(server);
  } catch (const zmq::error_t& error) {
    throw to_error(error, "guarding the scheduler's address");
  }
  thread_ = std::jthread([this] { serve(); });
}

Gate::~Gate() {
  stop_.signal();
  thread_.join();
}

void Gate::guard(zmq::socket_t& server) {
  server.set(zmq::sockopt::curve_server, true);
  server.set(zmq::sockopt::curve_secretkey, keys_.secret_key);
  server.set(zmq::sockopt::zap_domain, kDomain);
  const int demanded = 1;
  zmq_setsockopt(server.handle(), kEnforceDomain, &demanded, sizeof demanded);
  server.set(zmq::sockopt::handshake_ivl, kGuardedHandshakeMs);
  if (zmq_socket_monitor(server.handle(), kEvents, kFailures) != 0) throw zmq::error_t();
  events_.set(zmq::sockopt::rcvhwm, 1'000);
  events_.connect(kEvents);
}

void Gate::serve() {
  try {
    while (!stop_.taken()) {
      std::array<zmq::pollitem_t, 3> items{{{requests_.handle(), 0, ZMQ_POLLIN, 0},
                                            {events_.handle(), 0, ZMQ_POLLIN, 0},
                                            {nullptr, stop_.descriptor(), ZMQ_POLLIN, 0}}};
      if (uninterrupted([&] { return zmq_poll(items.data(), std::ssize(items), -1); }) < 0)
        throw to_error(zmq::error_t(), "waiting for connections");
      if ((items[0].revents & ZMQ_POLLIN) != 0) answer_request();
      if ((items[1].revents & ZMQ_POLLIN) != 0) take_event();
    }
  } catch (const std::exception&) {
    failure_ = std::current_exception();
    has_failed_ = true;
  }
}

void Gate::check() const {
  if (has_failed_) std::rethrow_exception(failure_);
}

void Gate::answer_request() {
  const auto request = receive_frames(requests_);
  if (request.empty()) return;
  const bool admitted = admits(request);
  if (!admitted && request.size() > kFrom) refuse(Refusal::kUnknownKey, request[kFrom]);
  const std::array<std::string, 6> answer{"1.0",
                                          request.size() > kRequestId ? request[kRequestId] : "",
                                          admitted ? "200" : "400",
                                          admitted ? "" : "not a key of this run",
                                          "",
                                          ""};
  for (size_t i = 0; i < answer.size(); ++i)
    if (!send_now(requests_, answer[i], i + 1 < answer.size() ? ZMQ_SNDMORE : 0))
      throw to_error(zmq::error_t(), "answering about a key");
}

bool Gate::admits(const std::vector<std::string>& request) const {
  return request.size() == kFrames && request[kVersion] == "1.0" &&
         request[kDomainName] == kDomain && request[kMechanism] == "CURVE" &&
         keys_.allowed.contains(request[kKey]);
}

// Of one that the gate has refused itself, it knows already.
void Gate::take_event() {
  const auto frames = receive_frames(events_);
  uint16_t event = 0;
  uint32_t value = 0;
  if (frames.empty() || frames[0].size() != sizeof event + sizeof value) return;
  std::memcpy(&event, frames[0].data(), sizeof event);
  std::memcpy(&value, frames[0].data() + sizeof event, sizeof value);
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) refuse(reason_of(value), {});
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) refuse(Refusal::kLeft, {});
}

void Gate::refuse(Refusal reason, const std::string& from) {
  ++refused_;
  log_.add(reason, from);
}

void show_keys(zmq::socket_t& worker, const WorkerKeys& keys) {
  try {
    worker.set(zmq::sockopt::curve_serverkey, keys.scheduler_key);
    worker.set(zmq::sockopt::curve_publickey, keys.public_key);
    worker.set(zmq::sockopt::curve_secretkey, keys.secret_key);
  } catch (const zmq::error_t& error) {
    throw to_error(error, "showing a worker's keys");
  }
}

}  // namespace kerf::runtime
