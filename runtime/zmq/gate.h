// The gate of a control server: who has none of a run's keys gets no connection, and is counted.
//
//   worker ── CURVE handshake ──> ROUTER ── may this key? (ZAP, ZeroMQ RFC 27) ──> gate
//                                        ── handshakes that failed (monitor) ────> gate
//
// Without somebody who answers ZAP, ZeroMQ lets in whoever knows the server's public key. So the
// gate answers before the socket that it guards is bound, and outlives it; should its thread fail,
// handshakes are answered no more, which lets nobody in.
//
// What strangers may take is bounded: the monitor's queue holds 2,000 events and then holds their
// connections back, and nothing is kept of anyone.
//
// Owned by the server. Threads: all but refused() are the owner's; the gate's own answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "runtime/event_fd.h"
#include "runtime/keys.h"
#include "runtime/zmq/refusal_log.h"

namespace kerf::runtime {

class Gate {
 public:
  // Of `server`, which is not bound yet; `notice` is called by the gate's thread. Throws
  // Error{kUnavailable}.
  Gate(zmq::context_t& context, zmq::socket_t& server, SchedulerKeys keys,
       RefusalLog::Notice notice);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  int64_t refused() const { return refused_; }

 private:
  void guard(zmq::socket_t& server);
  void serve();
  void answer_request();
  void take_event();
  bool admits(const std::vector<std::string>& request) const;
  void refuse(Refusal reason, const std::string& from);

  const SchedulerKeys keys_;
  RefusalLog log_;
  zmq::socket_t requests_;
  zmq::socket_t events_;
  EventFd stop_;
  std::atomic<int64_t> refused_{0};
  std::jthread thread_;
};

// What a worker's socket needs to pass the gate of its scheduler.
void show_keys(zmq::socket_t& worker, const WorkerKeys& keys);

}  // namespace kerf::runtime
