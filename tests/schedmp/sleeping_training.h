// Workers that sleep: a training whose F, I and W take as long as somebody says, whatever they
// compute. How schedules run beside how they are simulated, without a processor for each worker.
//
// The stream of a worker sleeps before the first kernel of each of F, I and W that an action has (B
// has two), once its messages are there, and computes behind that; what computes next to nothing
// takes what was said. A timer wakes late, so it is set earlier by what it was late on average, by
// kMostEarly at most. Which action that is the worker's Activity tells. What is of a step takes no
// time but its own.
//
// Threads: as the program, and the stream, that it is.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "ops/cpu/kernel_work.h"
#include "runtime/activity.h"
#include "runtime/device.h"
#include "schedmp/training/training.h"
#include "schedmp/unfold.h"

namespace kerf::tests {

// What the workers of a run slept; they outlive none of it.
struct Sleeps {
  schedmp::ActionCosts costs;  // seconds
  std::atomic<int64_t> count{0};
};

class SleepingStream final : public runtime::Stream {
 public:
  static constexpr std::chrono::nanoseconds kMostEarly = std::chrono::microseconds(100);

  // Those outlive it. `real` does everything before it returns.
  SleepingStream(runtime::Stream& real, const runtime::Activity& activity, Sleeps& sleeps);

  void copy(void* to, const void* from, size_t bytes) override { real_.copy(to, from, bytes); }
  void fill_zero(void* to, size_t bytes) override { real_.fill_zero(to, bytes); }
  void launch(runtime::HostWork& work) override;
  void record(runtime::Event& event) override { real_.record(event); }
  void wait(const runtime::Event& event) override { real_.wait(event); }
  void synchronize() override { real_.synchronize(); }

 private:
  void sleep_for(ops::cpu::Pass pass);
  void sleep_until(std::chrono::steady_clock::time_point end);

  runtime::Stream& real_;
  const runtime::Activity& activity_;
  Sleeps& sleeps_;
  std::string action_;           // "step 12: 1B3"
  std::array<bool, 3> slept_{};  // by pass, of that action
  std::chrono::nanoseconds late_{0};
};

// The stage of "step 12: 1B3 (behind ...)" and how much of the text says which action it is.
struct ToldAction {
  std::string name;
  int stage = -1;
};
// Stage -1: that is no action.
ToldAction told_action(const std::string& doing);

// A worker's half of schedmp::Training.
class SleepingTraining final : public runtime::Handler {
 public:
  SleepingTraining(const schedmp::TrainingFactories& factories, std::shared_ptr<Sleeps> sleeps)
      : sleeps_(std::move(sleeps)), training_(schedmp::training_worker(factories)) {}

  void start(runtime::Workplace& workplace, std::string_view job) override;
  std::string update(std::string_view task) override { return training_->update(task); }

 private:
  // In this order: what is under way works on the stream until it is over.
  std::shared_ptr<Sleeps> sleeps_;
  std::unique_ptr<SleepingStream> stream_;
  std::unique_ptr<runtime::Workplace> workplace_;
  std::unique_ptr<runtime::Handler> training_;
};

}  // namespace kerf::tests
