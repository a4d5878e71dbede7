#include "runtime/control_thread.h"

#include <algorithm>

#include "runtime/remote_store.h"
#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto kReportEvery = 250ms;
constexpr int kFirstReports = 5;  // come quickly, to learn the clock before work begins
constexpr auto kFirstReportEvery = 20ms;
constexpr auto kStuckAfter = 1s;
constexpr auto kLeaveWithin = 5s;  // less than a scheduler waits in stop()
constexpr auto kFlush = 1s;
constexpr int kTakenAtOnce = 64;  // messages taken in before results are looked at
constexpr auto kSpin = std::chrono::microseconds(5);
constexpr size_t kLargestResult = kMaxControlMessage - 64;

}  // namespace

std::optional<Error> judge_scheduler(const WorkerOptions& options, bool joined,
                                     Clock::time_point heard, Clock::time_point now) {
  const auto patience = joined ? options.silence : options.join_timeout;
  if (now < heard + patience) return {};
  const double seconds = std::chrono::duration<double>(patience).count();
  if (joined)
    return Error(ErrorCode::kLost, kerf::format("the scheduler at {} has been silent for {:.1f} s",
                                                options.scheduler, seconds));
  return Error(ErrorCode::kTimeout, kerf::format("no scheduler answered at {} within {:.0f} s",
                                                 options.scheduler, seconds));
}

ControlThread::ControlThread(const WorkerOptions& options, ControlClient& control,
                             const Activity& activity)
    : options_(options),
      control_(control),
      activity_(activity),
      heard_(Clock::now()),
      still_(kReportEvery) {
  report_at_ = Clock::time_point::max();
  thread_ = std::thread([this] { run(); });
}

ControlThread::~ControlThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
  }
  control_.wake();
  thread_.join();
}

bool ControlThread::idle() {
  const std::lock_guard lock(mutex_);
  return orders_.empty() && !stopped_ && !ended_;
}

std::optional<ControlMessage> ControlThread::next_order(Deadline deadline) {
  // A wake-up across cores costs 20 us; work that follows at once is cheaper to wait for awake.
  const auto spin_until = after(kSpin);
  while (waiting_orders_.load(std::memory_order_relaxed) == 0 && Clock::now() < spin_until) {
  }
  std::unique_lock lock(mutex_);
  busy_ = false;
  const bool come =
      arrived_.wait_until(lock, deadline, [&] { return !orders_.empty() || stopped_ || ended_; });
  busy_ = true;
  if (!come) return {};
  if (ended_) throw *ended_;
  if (stopped_) {
    leaving_ = true;
    return ControlMessage{ControlType::kStop, {}};
  }
  ControlMessage order = std::move(orders_.front());
  orders_.pop_front();
  waiting_orders_.fetch_sub(1, std::memory_order_relaxed);
  return order;
}

void ControlThread::send(ControlMessage message) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    outgoing_.push_back(std::move(message));
    wake = std::exchange(asleep_, false);
  }
  if (wake) control_.wake();
}

void ControlThread::add_result(std::string result) {
  KERF_CHECK(result.size() <= kLargestResult,
             "a result of {} bytes exceeds {}; large data belongs into a table or a channel",
             result.size(), kLargestResult);
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    results_.push_back(std::move(result));
    wake = std::exchange(asleep_, false);
  }
  if (wake) control_.wake();
}

void ControlThread::report(const Mended& mended) {
  const std::lock_guard lock(mutex_);
  mended_ = mended;
}

void ControlThread::guard(std::vector<Endpoint*> endpoints, RemoteStore* store) {
  const std::lock_guard lock(mutex_);
  guarded_ = std::move(endpoints);
  store_ = store;
}

void ControlThread::interrupt_guarded() {
  for (Endpoint* endpoint : guarded_) endpoint->interrupt();
  if (store_ != nullptr) store_->interrupt();
}

std::optional<Error> ControlThread::cause() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool ControlThread::finish(ControlMessage last) {
  send(std::move(last));
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    guarded_.clear();
    store_ = nullptr;
  }
  control_.wake();
  if (thread_.joinable()) thread_.join();
  return flushed_;
}

void ControlThread::run() {
  try {
    while (true) {
      exchange();
      {
        const std::lock_guard lock(mutex_);
        if (finishing_ && outgoing_.empty() && results_.empty()) break;
      }
      const auto now = Clock::now();
      report_if_due(now);
      give_up_if_stuck(now);
      if (!sleep_if_nothing_to_send()) continue;
      auto message = control_.receive(next_alarm());
      look(Clock::now());  // before anything is measured from now on
      const bool quiet = !message;
      for (int taken = 0; message && taken < kTakenAtOnce; ++taken) {
        handle(std::move(*message));
        message = control_.receive(Clock::time_point{});
      }
      if (message) handle(std::move(*message));
      // Only when nothing was left to be heard; and what we stood still is not its silence.
      if (quiet && !stuck_at_) judge();
    }
    // If it does not arrive, the scheduler notices that we are gone.
    flushed_ = control_.flush(after(kFlush));
  } catch (const Error& error) {
    end_run(error);
  } catch (const std::exception& error) {
    end_run(Error(ErrorCode::kInternal, error.what()));
  }
}

Clock::time_point ControlThread::next_alarm() const {
  const auto alarm = std::min(report_at_, after(kReportEvery));
  return stuck_at_ ? std::min(alarm, *stuck_at_) : alarm;
}

// At least every kReportEvery: moves on what is measured against the clock by what we stood still.
void ControlThread::look(Clock::time_point now) {
  const auto stood = still_.look(now);
  heard_ += stood;
  if (stuck_at_) *stuck_at_ += stood;
}

void ControlThread::judge() {
  const auto error = judge_scheduler(options_, joined_, heard_, Clock::now());
  if (!error) return;
  if (error->code() != ErrorCode::kTimeout) throw *error;
  const std::string hindrance = control_.hindrance();
  throw Error(error->code(),
              error->message() + (hindrance.empty() ? "; check the address, that it was started "
                                                      "with --listen, and --keys of both"
                                                    : ": " + hindrance));
}

// Marks this thread as asleep, so that the next message of the compute thread wakes it; false if
// there is one already.
bool ControlThread::sleep_if_nothing_to_send() {
  const std::lock_guard lock(mutex_);
  asleep_ = outgoing_.empty() && results_.empty() && !finishing_;
  return asleep_;
}

void ControlThread::exchange() {
  std::vector<ControlMessage> outgoing;
  std::vector<std::string> results;
  {
    const std::lock_guard lock(mutex_);
    asleep_ = false;
    outgoing.swap(outgoing_);
    results.swap(results_);
  }
  for (auto& payload : encode_batches(std::move(results)))
    control_.send({ControlType::kResults, std::move(payload)});
  for (auto& message : outgoing) control_.send(std::move(message));
}

void ControlThread::handle(ControlMessage message) {
  heard_ = Clock::now();
  switch (message.type) {
    case ControlType::kClock:
      learn_clock(message.payload);
      return;
    case ControlType::kStored:
      hand_to_store(std::move(message.payload));
      return;
    case ControlType::kStop: {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      arrived_.notify_one();
      if (busy_) {
        stuck_at_ = heard_ + kStuckAfter;
        interrupt_guarded();
      }
      return;
    }
    case ControlType::kAgain:
      if (options_.again) options_.again();
      throw Error(ErrorCode::kLost, "the run begins again, with other workers");
    case ControlType::kSpare:
      joined_ = true;
      report_at_ = heard_;
      if (options_.waits) options_.waits();
      return;
    case ControlType::kWelcome:
      joined_ = true;
      local_ = decode<Welcome>(message.payload).local;
      report_at_ = heard_;
      break;
    case ControlType::kRefuse:
    case ControlType::kStart:
    case ControlType::kWork:
      break;
    default:
      throw Error(ErrorCode::kProtocol,
                  kerf::format("the scheduler sent a message of type {} to a worker",
                               static_cast<int>(message.type)));
  }
  const std::lock_guard lock(mutex_);
  orders_.push_back(std::move(message));
  waiting_orders_.fetch_add(1, std::memory_order_relaxed);
  if (!busy_) arrived_.notify_one();
}

// What comes when nobody asks any more, the run being over, is nobody's.
void ControlThread::hand_to_store(std::string payload) {
  const std::lock_guard lock(mutex_);
  if (store_ != nullptr) store_->deliver(std::move(payload));
}

// Cristian's algorithm: the answer with the shortest round trip tells the offset best.
void ControlThread::learn_clock(const std::string& payload) {
  const auto answer = decode<ClockAnswer>(payload);
  const int64_t round_trip = now_ns() - answer.sent_ns;
  if (round_trip <= 0 || (best_.round_trip_ns != 0 && round_trip >= best_.round_trip_ns)) return;
  best_.round_trip_ns = round_trip;
  best_.clock_offset_ns = answer.scheduler_ns - (answer.sent_ns + round_trip / 2);
}

void ControlThread::report_if_due(Clock::time_point now) {
  if (now < report_at_) return;
  report_at_ = now + (++reports_ < kFirstReports ? kFirstReportEvery : kReportEvery);
  Report report = best_;
  report.sent_ns = now_ns();
  report.activity = activity_.report();
  {
    const std::lock_guard lock(mutex_);
    report.mended = mended_;
  }
  control_.send({ControlType::kReport, encode(report)});
}

// The run is over for this worker, and the scheduler cannot be told.
void ControlThread::end_run(const Error& error) {
  std::unique_lock lock(mutex_);
  ended_ = error;
  arrived_.notify_one();
  if (busy_) interrupt_guarded();
  // finishing_ has no waker of its own here: look again now and then, for a second.
  const auto until = after(kStuckAfter);
  while (busy_ && !finishing_ && Clock::now() < until) arrived_.wait_for(lock, 10ms);
  if (busy_ && !finishing_ && options_.give_up) options_.give_up(error, false);
}

void ControlThread::give_up_if_stuck(Clock::time_point now) {
  if (!stuck_at_ || now < *stuck_at_) return;
  const std::lock_guard lock(mutex_);
  if (!busy_ || finishing_) return;
  // It was told after all, and tears down what it has; once more, that may take longer.
  if (std::exchange(leaving_, false)) {
    stuck_at_ = now + kLeaveWithin;
    return;
  }
  stuck_at_ = now + kStuckAfter;
  if (options_.give_up)
    options_.give_up(Error(ErrorCode::kInterrupted, "told to stop, but the work does not end"),
                     local_);
}

}  // namespace kerf::runtime
