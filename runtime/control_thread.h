// A worker's control thread: talks to the scheduler so that the compute thread never has to.
//
// It reports, answers, notices silence, and exchanges orders and results with the compute thread
// through two queues. A batch of tasks is handed over whole, and all results that are finished when
// the thread looks travel in one message: the busier, the larger the batches. Neither side wakes
// the other if it is awake.
//
// Owned by run_worker. Public functions are for the compute thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/control.h"
#include "runtime/messages.h"
#include "runtime/standstill.h"
#include "runtime/worker.h"

namespace kerf::runtime {

class RemoteStore;

// What a worker makes at `now` of a scheduler that it last heard at `heard` (of one that did not
// answer its registration, when it began): why the run is over for it, or nothing. Pure.
std::optional<Error> judge_scheduler(const WorkerOptions& options, bool joined,
                                     Clock::time_point heard, Clock::time_point now);

class ControlThread {
 public:
  ControlThread(const WorkerOptions& options, ControlClient& control, const Activity& activity);
  ~ControlThread();

  // The next kRefuse, kWelcome, kStart, kWork or kStop; empty when the deadline passed. Throws what
  // ended the run, such as a silent scheduler. Nothing comes after kStop.
  [[nodiscard]] std::optional<ControlMessage> next_order(Deadline deadline);
  // Whether next_order() would block.
  bool idle();
  void send(ControlMessage message);
  void add_result(std::string result);
  // What reports tell of it from now on.
  void report(const Mended& mended);
  // The endpoints to interrupt when the run ends while the compute thread is busy, and the store,
  // where there is one, which is told the scheduler's answers until then.
  void guard(std::vector<Endpoint*> endpoints, RemoteStore* store);
  // Whether the scheduler said stop.
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  // What ended the run otherwise; whatever the compute thread meets afterwards follows from it.
  std::optional<Error> cause();
  // Sends a last message, waits a second at most for its arrival, and ends the thread. Whether it
  // arrived.
  bool finish(ControlMessage last);

 private:
  void run();
  void exchange();
  void handle(ControlMessage message);
  void learn_clock(const std::string& payload);
  void hand_to_store(std::string payload);
  void report_if_due(Clock::time_point now);
  void look(Clock::time_point now);
  void judge();
  void interrupt_guarded();
  void end_run(const Error& error);
  void give_up_if_stuck(Clock::time_point now);
  bool sleep_if_nothing_to_send();
  Clock::time_point next_alarm() const;

  const WorkerOptions& options_;
  ControlClient& control_;
  const Activity& activity_;

  std::mutex mutex_;  // guards the following
  std::condition_variable arrived_;
  std::deque<ControlMessage> orders_;
  std::vector<ControlMessage> outgoing_;
  std::vector<std::string> results_;
  Mended mended_;
  std::optional<Error> ended_;
  std::vector<Endpoint*> guarded_;
  RemoteStore* store_ = nullptr;
  bool busy_ = true;     // the compute thread is not in next_order()
  bool asleep_ = false;  // the control thread must be woken
  bool finishing_ = false;
  bool leaving_ = false;  // the compute thread was told to stop

  std::atomic<int> waiting_orders_{0};
  std::atomic<bool> stopped_{false};  // changed under mutex_, for arrived_

  // Of the control thread alone.
  bool joined_ = false;
  bool local_ = false;  // the scheduler started this worker
  Clock::time_point heard_;
  Clock::time_point report_at_;
  std::optional<Clock::time_point> stuck_at_;  // when to give up on the compute thread
  int reports_ = 0;
  Report best_;
  bool flushed_ = false;
  Standstill still_;

  std::thread thread_;
};

}  // namespace kerf::runtime
