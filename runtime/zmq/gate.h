// The gate of a control server: who has none of a run's keys gets no connection, and is counted.
//
//   worker ── CURVE handshake ──> ROUTER ── may this key? (ZAP, ZeroMQ RFC 27) ──> gate
//                                        ── handshakes that failed (monitor) ────> gate
//
// Without somebody who answers ZAP, ZeroMQ lets in whoever knows the server's public key, unless it
// is told to demand an answer, as it is here. The gate answers before the socket that it guards is
// bound, and outlives it; should its thread fail, handshakes are answered no more, which lets
// nobody in, and check() throws why.
//
// Its thread must never wait for anybody: the monitor's queue holds 2,000 events, and one more
// stops the thread of ZeroMQ that serves all connections. So it counts and answers, and the log
// tells. Nothing is kept of anyone. What does not begin with a greeting of ZMTP 3 (HTTP, say) is
// closed by ZeroMQ itself, which tells nobody.
//
// Owned by the server. Threads: all but refused() are the owner's; the gate's own answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
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
  // Of `server`, which is not bound yet; `log` outlives the gate. Throws Error{kUnavailable}.
  Gate(zmq::context_t& context, zmq::socket_t& server, SchedulerKeys keys, RefusalLog& log);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  int64_t refused() const { return refused_; }
  // Throws what ended the gate's thread, if something did: nobody can join any more.
  void check() const;

 private:
  void guard(zmq::socket_t& server);
  void serve();
  void answer_request();
  void take_event();
  bool admits(const std::vector<std::string>& request) const;
  void refuse(Refusal reason, const std::string& from);

  const SchedulerKeys keys_;
  RefusalLog& log_;
  zmq::socket_t requests_;
  zmq::socket_t events_;
  EventFd stop_;
  std::atomic<int64_t> refused_{0};
  std::exception_ptr failure_;  // written before has_failed_
  std::atomic<bool> has_failed_{false};
  std::jthread thread_;
};

// What a worker's socket needs to pass the gate of its scheduler.
void show_keys(zmq::socket_t& worker, const WorkerKeys& keys);

}  // namespace kerf::runtime
