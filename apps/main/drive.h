// Driving a program: workers are assembled, the loop runs to its end with a progress bar, and the
// workers leave. What every command that runs something has in common.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/main/crew_flags.h"
#include "apps/report/counted_apart.h"
#include "apps/report/progress.h"
#include "runtime/error.h"
#include "runtime/interrupt.h"
#include "schedmp/scheduler.h"

namespace kerf::apps {

struct Driven {
  schedmp::LoopReport loop;
  std::vector<runtime::WorkerInfo> crew;
  runtime::ControlCounters control;  // messages between scheduler and workers
};

// The run goes on as another process of the same command.
class NextProcess : public Error {
 public:
  NextProcess(const Error& why, std::shared_ptr<const runtime::Interrupt> interrupt)
      : Error(why), interrupt_(std::move(interrupt)) {}
  // Whoever asked for an end while the crew left has it, as the other process would not know:
  // throws Error{kInterrupted}. For behind drive(), where a signal that comes ends this process.
  void end_if_asked(const std::string& way_on) const;

 private:
  std::shared_ptr<const runtime::Interrupt> interrupt_;
};

// Nobody took the place of a lost worker, and those that are left were told to register again with
// whoever listens at the same address next: with CrewFlags::shrink.
class FewerWorkers : public NextProcess {
 public:
  FewerWorkers(const Error& why, std::shared_ptr<const runtime::Interrupt> interrupt, int left)
      : NextProcess(why, std::move(interrupt)), left_(left) {}
  int left() const { return left_; }

 private:
  int left_;
};

// LoopOptions::leaves said so: the run goes on from its newest snapshot. Workers that connected
// were told to register again at the same address, where they had these places; others are gone.
class GoesOnElsewhere : public NextProcess {
 public:
  GoesOnElsewhere(const Error& why, std::shared_ptr<const runtime::Interrupt> interrupt,
                  std::vector<runtime::Returning> returning)
      : NextProcess(why, std::move(interrupt)), returning_(std::move(returning)) {}
  const std::vector<runtime::Returning>& returning() const { return returning_; }

 private:
  std::vector<runtime::Returning> returning_;
};

// Of a run's record.
std::vector<RecoveryRecord> recoveries_of(const schedmp::LoopReport& loop);
CountedApart apart_of(const Driven& driven);
// Notes that a trace had no room for so many; nothing where there are none.
void tell_lost_spans(int64_t lost);

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
