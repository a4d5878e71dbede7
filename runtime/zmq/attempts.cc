#include "runtime/zmq/attempts.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <tuple>
#include <utility>

#include "runtime/host_address.h"
#include "runtime/zmq/socket.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

constexpr const char* kAttemptEvents = "inproc://kerf-attempts";
constexpr int kFailedHandshakes = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                  ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                  ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr auto kSoon = 2'500ms;  // a handshake that is not answered takes 2 s
constexpr int kPartOfPatience = 20;
constexpr auto kAgainAfter = 1s;

std::string why_without_way(const std::string& host) {
  try {
    std::ignore = number_of_host(host);
    return {};
  } catch (const Error& error) {
    return error.message();
  }
}

// Why there is no way to a host by its name; empty: there is one. A name server that does not
// answer takes longer to say so than a worker may be silent, so nobody waits for the thread.
std::shared_future<std::string> look_for_way(const std::string& address) {
  const auto tcp = split_tcp(address);
  if (!tcp || HostAddress::parse(tcp->host)) return {};
  std::promise<std::string> promise;
  std::shared_future<std::string> why = promise.get_future().share();
  std::thread([promise = std::move(promise), host = tcp->host]() mutable {
    promise.set_value(why_without_way(host));
  }).detach();
  return why;
}

}  // namespace

Attempts::Attempts(zmq::context_t& context, zmq::socket_t& client, Aim aim, Unanswered unanswered)
    : client_(client),
      events_(make_socket(context, zmq::socket_type::pair, {})),
      aim_(std::move(aim)),
      unanswered_(std::move(unanswered)),
      without_way_(look_for_way(aim_.address)) {
  try {
    if (zmq_socket_monitor(client_.handle(), kAttemptEvents,
                           ZMQ_EVENT_CONNECTED | kFailedHandshakes) != 0)
      throw zmq::error_t();
    events_.set(zmq::sockopt::rcvhwm, 1'000);
    events_.connect(kAttemptEvents);
  } catch (const zmq::error_t& error) {
    throw to_error(error, "watching a connection");
  }
}

// Before nobody takes its events any more.
Attempts::~Attempts() { zmq_socket_monitor(client_.handle(), nullptr, 0); }

void Attempts::look() {
  zmq::message_t frame;
  while (receive_now(events_, frame)) {
    uint16_t event = 0;
    uint32_t value = 0;
    if (frame.size() == sizeof event + sizeof value) {
      std::memcpy(&event, frame.data(), sizeof event);
      std::memcpy(&value, static_cast<const char*>(frame.data()) + sizeof event, sizeof value);
      take_event(event, value);
    }
    while (frame.more() && receive_now(events_, frame)) {
    }
  }
  if (Clock::now() >= again_at_) connect_anew();
  if (told_ || Clock::now() < tell_at()) return;
  told_ = true;
  unanswered_.tell(note());
}

void Attempts::take_event(uint16_t event, uint32_t value) {
  Hindrance what = Hindrance::kSilent;
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) what = Hindrance::kRefused;
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) what = Hindrance::kHungUp;
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
    what = value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? Hindrance::kOtherMechanism
                                                               : Hindrance::kHungUp;
  seen_ = std::max(seen_, what);
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH || event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
    again_at_ = after(kAgainAfter);
}

// What was sent on the connection before is lost, and sent again by the link.
void Attempts::connect_anew() {
  again_at_ = Clock::time_point::max();
  zmq_disconnect(client_.handle(), aim_.address.c_str());
  connect_socket(client_, aim_.address);
}

// Of two that do not suit each other, whoever notices first hangs up, often before it has said what
// the other could go by: other attempts may end otherwise.
Clock::time_point Attempts::tell_at() const {
  if (seen_ == Hindrance::kHungUp) return begin_ + 2 * kSoon;
  if (seen_ != Hindrance::kNobody) return begin_ + kSoon;
  return begin_ +
         std::max<std::chrono::milliseconds>(kSoon, unanswered_.patience / kPartOfPatience);
}

std::string Attempts::note() const {
  const std::string what = hindrance();
  if (seen_ == Hindrance::kNobody)
    return kerf::format(
        "{}; waiting, for {:.0f} s at most",
        what.empty() ? kerf::format("nobody listens at {} yet", aim_.address) : what,
        std::chrono::duration<double>(unanswered_.patience).count());
  return what + (seen_ == Hindrance::kSilent ? "; waiting" : "; tries again");
}

std::string Attempts::hindrance() const {
  const std::string& address = aim_.address;
  const bool keys = !aim_.keys.empty();
  switch (seen_) {
    case Hindrance::kNobody:
      return without_way_.valid() && without_way_.wait_for(0s) == std::future_status::ready
                 ? without_way_.get()
                 : "";
    case Hindrance::kSilent:
      return kerf::format("whoever listens at {} does not answer yet", address);
    case Hindrance::kHungUp:
      return keys ? kerf::format(
                        "whoever listens at {} has not shown that it is the scheduler of "
                        "{}/scheduler.public: if it is another's, copy that of the run's keys, or "
                        "mend the address; if it has no keys, start the run with --keys",
                        address, aim_.keys)
                  : kerf::format(
                        "whoever listens at {} has not shown that it is a scheduler of kerf: "
                        "check the address",
                        address);
    case Hindrance::kOtherMechanism:
      return keys
                 ? kerf::format("whoever listens at {} has no keys: start the run with --keys",
                                address)
                 : kerf::format("the run at {} lets in only workers with its keys: give --keys DIR",
                                address);
    case Hindrance::kRefused:
      return kerf::format(
          "the scheduler at {} refuses the key in {}, which its workers.allowed does "
          "not list: copy worker.secret of the run's keys, or list the key there "
          "and begin the run again",
          address, aim_.keys);
  }
  return {};
}

}  // namespace kerf::runtime
