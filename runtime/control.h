// The control plane: small ordered messages between the scheduler and its workers.
//
// Delivery is exactly once and in order per worker and direction: every message is numbered,
// acknowledged, sent again after a reconnection, and dropped if it came before. Garbage, oversized
// messages, other versions and strangers are dropped and counted. Implementations: zmq/ (ROUTER and
// DEALER) and inproc/ (queues). What workers send each other never travels here; the files of a run
// do, where a worker is of another host, in pieces of 256 KiB. A message is at most 1 MiB; only
// kStart, which carries a job (a plan's text) once, may be larger, crosses in pieces, and is whole
// again at the worker. The server drops what is larger than 1 MiB, whatever its type.
//
//   worker                              scheduler
//   kRegister: who I am       ───────>
//                             <───────  kWelcome: your number, transport  (or kRefuse: why not;
//                                                                          kSpare: not yet)
//   kAddress: my endpoint's   ───────>
//                             <───────  kStart: wiring, program, job      (when all have addresses)
//   kReady: channels open     ───────>
//                             <───────  kWork: tasks
//   kResults                  ───────>                                    (over and over)
//   kReport (4 a second)      ───────>
//                             <───────  kClock
//   kStore                    ───────>                                    (from another host)
//                             <───────  kStored
//                             <───────  kStop                             (or at any time kAgain)
//   kBye                      ───────>                                    (or at any time kFailed)
//
// Threads: each object belongs to one thread, except wake().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/time.h"

namespace kerf::runtime {

// The largest message, whole; what is larger belongs into a table, a channel or a file.
inline constexpr size_t kMaxControlMessage = size_t{1} << 20;
inline constexpr size_t kMaxStartMessage = size_t{64} << 20;

enum class ControlType : uint16_t {
  kRegister = 1,  // worker -> scheduler: who I am
  kRefuse,        // scheduler -> worker: why you may not join; ends the worker
  kWelcome,       // scheduler -> worker: your number, the transport, your threads
  kAddress,       // worker -> scheduler: where my endpoint is
  kStart,         // scheduler -> worker: your wiring and job
  kReady,         // worker -> scheduler: channels open, job understood
  kWork,          // scheduler -> worker: a batch of tasks
  kResults,       // worker -> scheduler: a batch of results
  kReport,        // worker -> scheduler: what I am doing, for how long, what I await (heartbeat)
  kClock,         // scheduler -> worker: answer to a report, with the scheduler's clock
  kStop,          // scheduler -> worker: finish and leave
  kBye,           // worker -> scheduler: left in order
  kFailed,        // worker -> scheduler: an Error ended me
  kAgain,         // scheduler -> worker: the run begins again; register as if for the first time
  kSpare,         // scheduler -> worker: all places are taken; wait for one
  kStore,         // worker -> scheduler: what it asks of the run's files (store_messages.h)
  kStored,        // scheduler -> worker: what came of that
};

struct ControlMessage {
  ControlType type{};
  std::string payload;
};

// Bytes that the payload of a message of this type may have.
constexpr size_t largest_of(ControlType type) {
  return type == ControlType::kStart ? kMaxStartMessage : kMaxControlMessage;
}
// Throws Error{kInternal} that says how large it may be.
void check_size(const ControlMessage& message);

struct ControlCounters {
  int64_t sent = 0;
  int64_t received = 0;
  int64_t resent = 0;
  int64_t dropped = 0;
  int64_t fenced = 0;   // of peers whose epoch is over; in no other figure
  int64_t refused = 0;  // connections without a key of the run

  ControlCounters& operator+=(const ControlCounters& more) {
    sent += more.sent;
    received += more.received;
    resent += more.resent;
    dropped += more.dropped;
    fenced += more.fenced;
    refused += more.refused;
    return *this;
  }
};

// The scheduler's side. Peers are numbered by the order of their first message, from 0.
class ControlServer {
 public:
  struct Incoming {
    int peer = 0;
    ControlMessage message;
    bool disconnected = false;  // the peer's connection broke; no message; it may come back
    // That its connection comes from: a number, or a text that is none; empty: this one.
    std::string host = {};
  };

  virtual ~ControlServer() = default;
  virtual std::string address() const = 0;  // with the port that was bound
  // Throws Error{kInternal} for a message above largest_of(its type). Ignored for a forgotten peer.
  virtual void send(int peer, ControlMessage message) = 0;
  // Empty when the deadline passed, wake() was called or a watched descriptor became readable.
  // Throws Error{kUnavailable} when it can let in nobody any more.
  [[nodiscard]] virtual std::optional<Incoming> receive(Deadline deadline) = 0;
  // Bytes that are kept of clocks and of what the store answered, since the peer has not said that
  // it has them.
  virtual int64_t unacknowledged_answers(int peer) const = 0;
  virtual void forget(int peer) = 0;  // drop its queue; later messages of it are strangers'
  // The same of one whose epoch is over: what comes of it from now on counts as fenced.
  virtual void fence(int peer) = 0;
  virtual void watch(int descriptor) = 0;
  virtual void unwatch(int descriptor) = 0;
  virtual void wake() = 0;  // thread- and signal-safe
  virtual ControlCounters counters() const = 0;
};

// A worker's side.
class ControlClient {
 public:
  virtual ~ControlClient() = default;
  virtual void send(ControlMessage message) = 0;
  // Empty when the deadline passed or wake() was called. Throws Error{kProtocol} when the scheduler
  // turns out to speak another version.
  [[nodiscard]] virtual std::optional<ControlMessage> receive(Deadline deadline) = 0;
  virtual void wake() = 0;  // thread-safe
  // Waits until all was acknowledged; false when the deadline passed.
  [[nodiscard]] virtual bool flush(Deadline deadline) = 0;
  // What stands between it and a scheduler that has not answered yet, as far as it can be seen; by
  // the thread that calls receive().
  virtual std::string hindrance() const { return {}; }
  virtual ControlCounters counters() const = 0;
};

// Whom a server lets in.
struct Admission {
  // A folder of keys (keys.h): who has none of them gets no connection. Empty: whoever is of this
  // host, and over ipc this user.
  std::string keys = {};
  // Told why connections were refused, each reason at most once a second and when the server ends,
  // by a thread of the server's own. Only the server's end waits for it. May be empty; what it
  // throws is ignored.
  std::function<void(const std::string&)> notice = {};
};

// "tcp://10.0.0.1:5555", "tcp://127.0.0.1:*" or "ipc://@name" (an abstract socket: no file is left
// behind). Throws Error{kUnavailable} for an address in use, Error{kUsage} for a malformed one, one
// beyond this host without keys, and keys that cannot be read. Workers that are threads use
// inproc/inproc_control.h. Beyond `peers_at_most` at a time, registrations are dropped.
inline constexpr int kStrangersAtMost = 1024;  // that registered and were not forgotten yet
std::unique_ptr<ControlServer> make_control_server(const std::string& address,
                                                   int peers_at_most = kStrangersAtMost,
                                                   const Admission& admission = {});
// Connects in the background and again after every break, for as long as it lives. `keys`: a folder
// of keys, as at the server.
std::unique_ptr<ControlClient> make_control_client(const std::string& address,
                                                   const std::string& keys = {});
// These throw Error{kUsage}: for what is no address,
void check_address(const std::string& address);
// for one beyond this host,
void check_local_address(const std::string& address);
// and for one beyond it whose run has no keys.
void check_control_address(const std::string& address, bool has_keys);
// Of an address that is one.
bool is_local_address(const std::string& address);
// "ipc://@kerf-" and 128 random bits: known before anything is bound, and not to be guessed.
std::string random_local_address();
// Unguessable; from the kernel.
uint64_t random_bits();

}  // namespace kerf::runtime
