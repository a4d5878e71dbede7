#include "runtime/link/progress_engine.h"

#include <algorithm>
#include <utility>

#include "runtime/slot_events.h"
#include "runtime/standstill.h"

namespace kerf::runtime {
namespace {

// How long something may be under way before one asks what became of it.
constexpr std::chrono::milliseconds kPatience{1'000};
// How long the compute thread must not have called before the data thread drives: longer than a
// worker takes from message to message that does nothing else, and little beside a tensor's copy.
constexpr std::chrono::microseconds kAway{50};
// How long what was committed may lie unsent: who waits for something else meanwhile sends it.
constexpr std::chrono::microseconds kUnsent{20};
// While it calls all the time the data thread looks ever more seldom, up to this.
constexpr std::chrono::microseconds kSeldom{1'600};

}  // namespace

// The compute thread drives while this lives.
class ProgressEngine::Driving {
 public:
  Driving(ProgressEngine& engine, Lock& lock) : engine_(engine) {
    engine_.compute_drives_ = true;
    if (std::exchange(engine_.sends_soon_, false)) engine_.thread_->forget_time();
    engine_.stepped_aside_.wait(lock, [this] { return !engine_.data_drives_; });
  }
  ~Driving() {
    engine_.compute_drives_ = false;
    engine_.visited_ = Clock::now();
    if (engine_.thread_) engine_.leave();
  }
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;

 private:
  ProgressEngine& engine_;
};

ProgressEngine::~ProgressEngine() {
  if (thread_) thread_->stop();
}

void ProgressEngine::start() {
  const Lock lock(mutex_);
  next_look_ = kAway;
  thread_.emplace(socket_.descriptor(), [this] { round(); });
  thread_->wake_by(Clock::now() + (copies_ ? Clock::duration(kAway) : Clock::duration(kPatience)));
}

void ProgressEngine::check_failure() const {
  if (failure_) std::rethrow_exception(failure_);
}

// Whoever holds a mutex and takes it again at once mostly gets it, whoever else waits: so these say
// that they do.
ProgressEngine::Lock ProgressEngine::lock() const {
  ++wanted_;
  Lock lock(mutex_);
  --wanted_;
  wanted_.notify_one();
  return lock;
}

ProgressEngine::Lock ProgressEngine::enter() {
  Lock lock = this->lock();
  check_failure();
  const Clock::time_point now = Clock::now();
  calls_often_ = now < visited_ + kAway;
  visited_ = now;
  return lock;
}

bool ProgressEngine::serve(Lock& lock, const std::function<bool()>& done, Deadline deadline) {
  const Driving driving(*this, lock);
  check_failure();
  while (true) {
    socket_.check_interrupted();
    const bool passed_on = pass_on();
    // No further than needed: what is still unread costs no system call when its time comes.
    while (!done()) {
      const auto packet = socket_.receive(traffic_, lock);
      if (!packet) break;
      traffic_.handle(*packet);
    }
    if (done()) return true;
    if (Clock::now() >= deadline) return false;
    if (thread_) thread_->listen(false);  // one thread is enough to wake
    // No packet tells when the device is done.
    const Clock::duration patience = passed_on ? kPatience : kDevicePatience;
    Standstill still(kPatience);
    lock.unlock();
    socket_.wait(std::min(deadline, after(patience)));
    lock.lock();
    deadline = postponed(deadline, still.look());
    probe();
  }
}

void ProgressEngine::leave() {
  if (socket_.has_unsent()) send_soon();
  if (awaits_device_) return thread_->wake_by(visited_ + kDevicePatience);
  if (!copies_) return thread_->wake_by(visited_ + kPatience);
  // Packets that lie there already tell of themselves no more.
  const bool told = thread_->listens() && socket_.drained();
  thread_->wake_by(visited_ + (told ? Clock::duration(kPatience) : next_look_));
}

bool ProgressEngine::pass_on() {
  awaits_device_ = !traffic_.pass_on();
  return !awaits_device_;
}

void ProgressEngine::await_device(const Lock&) {
  awaits_device_ = true;
  if (thread_) thread_->wake_by(Clock::now() + kDevicePatience);
}

void ProgressEngine::send_on(Lock& lock) {
  if (!thread_ || !socket_.has_unsent()) return;
  if (!calls_often_) return send_soon();
  const Driving driving(*this, lock);
  socket_.send_unsent(lock);
}

void ProgressEngine::send_soon() {
  sends_soon_ = true;
  thread_->wake_by(visited_ + kUnsent);
}

void ProgressEngine::round() {
  Lock lock(mutex_);
  thread_->begin_round();
  sends_soon_ = false;
  if (failure_) return thread_->listen(false);
  if (compute_drives_) return look_later();  // and it asks for that when it leaves
  try {
    move(lock);
  } catch (...) {
    failure_ = std::current_exception();
    thread_->listen(false);
  }
  data_drives_ = false;
  stepped_aside_.notify_one();
}

void ProgressEngine::move(Lock& lock) {
  const Clock::time_point now = Clock::now();
  if (!pass_on()) thread_->wake_by(now + kDevicePatience);
  if (now < visited_ + kAway && !socket_.has_unsent()) {
    look_later();
    return thread_->wake_by(visited_ + next_look_);
  }
  next_look_ = kAway;
  data_drives_ = true;
  while (!compute_drives_) {
    const auto packet = socket_.receive(traffic_, lock);
    if (!packet && !socket_.can_send()) break;
    if (packet) traffic_.handle(*packet);
    give_way(lock);
  }
  if (compute_drives_) return thread_->listen(false);
  probe();
  // After many unsound packets: their sender shall not have this processor for himself.
  const bool drained = socket_.drained();
  thread_->listen(drained && (copies_ || socket_.has_unsent()));
  thread_->wake_by(Clock::now() + (drained ? Clock::duration(kPatience) : kAway));
}

void ProgressEngine::look_later() {
  thread_->listen(false);
  next_look_ = std::min<Clock::duration>(2 * next_look_, kSeldom);
}

void ProgressEngine::give_way(Lock& lock) {
  const int wanted = wanted_;
  if (wanted == 0) return;
  lock.unlock();
  wanted_.wait(wanted);
  lock.lock();
}

void ProgressEngine::probe() {
  const Clock::time_point now = Clock::now();
  if (now - probed_ < kPatience) return;
  probed_ = now;
  traffic_.probe(now - kPatience);
}

}  // namespace kerf::runtime
