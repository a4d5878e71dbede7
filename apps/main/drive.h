// Driving a program: workers are assembled, the loop runs to its end with a progress bar, and the
// workers leave. What every command that runs something has in common.
#pragma once

#include <utility>
#include <vector>

#include "apps/main/crew_flags.h"
#include "apps/report/progress.h"
#include "runtime/error.h"
#include "schedmp/scheduler.h"

namespace kerf::apps {

struct Driven {
  schedmp::LoopReport loop;
  std::vector<runtime::WorkerInfo> crew;
  runtime::ControlCounters control;  // messages between scheduler and workers
};

// Nobody took the place of a lost worker, and those that are left were told to register again with
// whoever listens at the same address next: with CrewFlags::shrink.
class FewerWorkers : public Error {
 public:
  FewerWorkers(const Error& why, int left) : Error(why), left_(left) {}
  int left() const { return left_; }

 private:
  int left_;
};

// LoopOptions::leaves said so: the run goes on as another process, from its newest snapshot.
// Workers that connected were told to register again at the same address, where they had these
// places; others are gone.
class GoesOnElsewhere : public Error {
 public:
  GoesOnElsewhere(const Error& why, std::vector<runtime::Returning> returning)
      : Error(why), returning_(std::move(returning)) {}
  const std::vector<runtime::Returning>& returning() const { return returning_; }

 private:
  std::vector<runtime::Returning> returning_;
};

// Where a command's progress goes: the standard error output. The caller adds what it will count.
Progress::Options progress_on_stderr();

// The program tells `progress` of its rounds. Throws what ended the run, FewerWorkers or
// GoesOnElsewhere; workers are gone when it returns or throws otherwise.
Driven drive(schedmp::EncodedProgram& program, const CrewFlags& flags, const CrewNeeds& needs,
             ProgressBar& progress, const schedmp::LoopOptions& options = {});
template <class Messages>
Driven drive(schedmp::SchedulerHalf<Messages>& program, const CrewFlags& flags,
             const CrewNeeds& needs, ProgressBar& progress,
             const schedmp::LoopOptions& options = {}) {
  schedmp::Encoded<Messages> encoded(program);
  return drive(encoded, flags, needs, progress, options);
}

}  // namespace kerf::apps
