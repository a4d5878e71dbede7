#include "apps/main/own_worker.h"

#include <chrono>
#include <condition_variable>
#include <utility>

#include "runtime/format.h"
#include "runtime/time.h"

namespace kerf::apps {

namespace {

using namespace std::chrono_literals;

// What a worker tells the scheduler of its end says more than that end.
constexpr auto kForWhatItTold = 300ms;
constexpr auto kLookEvery = 1s;

// Of the code that a process ends with (exit_code()).
ErrorCode error_of(std::optional<int> code) {
  return code == exit_code(ErrorCode::kUnavailable) ? ErrorCode::kUnavailable : ErrorCode::kLost;
}

}  // namespace

OwnWorker::OwnWorker(const std::vector<std::string>& command, bool others_may_come,
                     std::shared_ptr<runtime::Interrupt> end)
    : keeper_(runtime::Process::spawn(command)),
      others_may_come_(others_may_come),
      end_(std::move(end)),
      watch_([this](const std::stop_token& stop) { watch(stop); }) {}

OwnWorker::~OwnWorker() {
  watch_.request_stop();
  stopped_.signal();
  watch_.join();
}

void OwnWorker::awaited(bool again) {
  const std::lock_guard lock(mutex_);
  missed_ = !again || !others_may_come_;
  fail_if_missed();
}

void OwnWorker::all_are_here() {
  const std::lock_guard lock(mutex_);
  missed_ = false;
}

std::optional<Error> OwnWorker::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool OwnWorker::has_ended() const {
  const std::lock_guard lock(mutex_);
  return how_.has_value();
}

void OwnWorker::watch(const std::stop_token& stop) {
  while (!keeper_.ended()) {
    if (stop.stop_requested()) return;
    runtime::poll_readable({keeper_.descriptor(), stopped_.descriptor()},
                           runtime::after(kLookEvery));
  }
  runtime::poll_readable({stopped_.descriptor()}, runtime::after(kForWhatItTold));
  const std::lock_guard lock(mutex_);
  how_ = keeper_.ended();
  code_ = keeper_.exit_code();
  fail_if_missed();
}

void OwnWorker::fail_if_missed() {
  if (!missed_ || !how_ || failure_) return;
  if (end_->asked() || end_->raised()) return;  // as somebody has ended the run
  failure_ = Error(error_of(code_),
                   format("the worker that this task keeps ended with {} before all workers were "
                          "here; what it said before tells why",
                          *how_));
  end_->raise();
}

}  // namespace kerf::apps
