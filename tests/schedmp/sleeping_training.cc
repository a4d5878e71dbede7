#include "tests/schedmp/sleeping_training.h"

#include <sys/prctl.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "runtime/error.h"

namespace kerf::tests {

using ops::cpu::KernelWork;
using ops::cpu::Pass;

ToldAction told_action(const std::string& doing) {
  constexpr std::string_view kBefore = ": ";
  const size_t colon = doing.find(kBefore);
  if (!doing.starts_with("step ") || colon == std::string::npos) return {};
  const char* first = doing.data() + colon + kBefore.size();
  ToldAction told{doing.substr(0, doing.find(' ', colon + kBefore.size()))};
  if (std::from_chars(first, doing.data() + doing.size(), told.stage).ec != std::errc()) return {};
  return told;
}

SleepingStream::SleepingStream(runtime::Stream& real, const runtime::Activity& activity,
                               Sleeps& sleeps)
    : real_(real), activity_(activity), sleeps_(sleeps) {}

void SleepingStream::launch(runtime::HostWork& work) {
  if (const auto* kernel = dynamic_cast<const KernelWork*>(&work)) sleep_for(kernel->pass());
  real_.launch(work);
}

// From when its messages are there, which is now.
void SleepingStream::sleep_for(Pass pass) {
  const auto begin = std::chrono::steady_clock::now();
  ToldAction told = told_action(activity_.report().doing);
  KERF_CHECK(told.stage >= 0, "a kernel runs, and no action");
  if (told.name != action_) {
    action_ = std::move(told.name);
    slept_ = {};
  }
  bool& slept = slept_.at(static_cast<size_t>(pass));
  if (slept) return;
  slept = true;
  const schedmp::StageCosts& costs = sleeps_.costs.of_stage(told.stage);
  const double seconds = pass == Pass::kForward         ? costs.forward
                         : pass == Pass::kInputGradient ? costs.input_gradient
                                                        : costs.weight_gradient;
  ++sleeps_.count;
  sleep_until(begin + std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
}

void SleepingStream::sleep_until(std::chrono::steady_clock::time_point end) {
  constexpr int kMeanOf = 8;
  const auto now = std::chrono::steady_clock::now();
  if (end - late_ <= now) return;
  std::this_thread::sleep_until(end - late_);
  const auto late = std::chrono::steady_clock::now() - (end - late_);
  late_ = std::min(late_ + (std::chrono::nanoseconds(late) - late_) / kMeanOf, kMostEarly);
}

// The compute thread's own sleep wakes as exactly as the kernel can.
void SleepingTraining::start(runtime::Workplace& workplace, std::string_view job) {
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  stream_ = std::make_unique<SleepingStream>(workplace.stream, workplace.activity, *sleeps_);
  workplace_ = std::make_unique<runtime::Workplace>(runtime::Workplace{
      workplace.worker, workplace.workers, workplace.threads, workplace.device, *stream_,
      workplace.endpoint, workplace.activity, workplace.trace, workplace.store, workplace.service});
  training_->start(*workplace_, job);
}

}  // namespace kerf::tests
