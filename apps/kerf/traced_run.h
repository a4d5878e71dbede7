// What the trace of a run of training tells beside its spans: the step as it was predicted, the
// record of one step, and what actions cost. For kerf train.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/kerf/planned.h"
#include "apps/kerf/run_training.h"
#include "apps/report/step_spans.h"
#include "apps/report/traced_step.h"
#include "partitioner/part.h"
#include "schedmp/schedule.h"
#include "schedmp/steps.h"
#include "schedmp/unfold.h"

namespace kerf::apps {

class TracedRun {
 public:
  // Takes the spans of the run.
  TracedRun(const Planned& planned, const schedmp::Schedule& schedule, const Outcome& outcome);
  TracedRun(const TracedRun&) = delete;
  TracedRun& operator=(const TracedRun&) = delete;

  // On the scheduler's clock, with all that a trace shows.
  const std::vector<runtime::WorkerTrace>& traces() const { return traces_; }
  // Empty where no step was traced whole, and for steps too large to be kept: why_not() tells.
  const std::optional<TracedStep>& step() const { return step_; }
  const std::string& why_not() const { return why_not_; }
  // Throws Error{kUnavailable} where no step was traced whole.
  const schedmp::ActionCosts& costs() const;

 private:
  void measure(const Planned& planned, const Outcome& outcome, const std::vector<StepSpans>& steps);

  const schedmp::Schedule& schedule_;
  const std::vector<partitioner::Part> parts_;
  const schedmp::Steps steps_;
  const std::vector<std::vector<schedmp::Action>> shown_;
  std::vector<runtime::WorkerTrace> traces_;
  std::optional<schedmp::ActionCosts> costs_;
  std::optional<TracedStep> step_;
  std::string why_not_;
};

}  // namespace kerf::apps
