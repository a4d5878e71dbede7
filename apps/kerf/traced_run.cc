#include "apps/kerf/traced_run.h"

#include <set>
#include <utility>

#include "apps/kerf/proof.h"
#include "apps/report/measured_costs.h"
#include "apps/report/trace_drawing.h"
#include "partitioner/complete_plan.h"
#include "partitioner/part.h"
#include "runtime/error.h"
#include "schedmp/search/plan_costs.h"
#include "schedmp/training/lbfgs_training.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostKept = 20'000;  // actions

// Those whose rows are as many as were planned for; of L-BFGS these are portions.
std::set<int64_t> full_steps(const Planned& planned, const Outcome& outcome) {
  std::set<int64_t> full;
  if (const auto* by = dynamic_cast<const schedmp::LbfgsTraining*>(outcome.training.get())) {
    for (int64_t portion = 0; portion < by->full_portions(); ++portion) full.insert(portion);
    return full;
  }
  for (const schedmp::StepRecord& step : outcome.training->steps())
    if (step.rows == planned.plan.batch * outcome.replicas.count) full.insert(step.step);
  return full;
}

std::string why_no_step(const Outcome& outcome, const schedmp::Steps& steps,
                        const std::vector<runtime::WorkerTrace>& traces) {
  bool traced = false;
  for (const runtime::WorkerTrace& each : traces) traced = traced || !each.spans.empty();
  if (!traced) return "no step was traced: train with --trace-steps 2 or more";
  for (const runtime::WorkerInfo& info : outcome.driven.crew)
    if (info.spans_lost > 0)
      return "the trace had no room for all actions of a step: train with fewer --micro-batches";
  if (steps.go_on())
    return "in every traced step the pipeline filled or drained, or there were fewer rows than "
           "--batch: train with more --steps and --trace-steps";
  return "no traced step had as many rows as --batch: train with fewer, or on more data";
}

std::vector<schedmp::RegionUse> uses_of(const std::vector<partitioner::Part>& parts,
                                        const schedmp::Steps& steps, int workers) {
  std::vector<schedmp::RegionUse> uses;
  for (int worker = 0; worker < workers; ++worker)
    uses.push_back(region_use(schedmp::parts_of(parts, worker), steps, worker));
  return uses;
}

}  // namespace

TracedRun::TracedRun(const Planned& planned, const schedmp::Schedule& schedule,
                     const Outcome& outcome)
    : schedule_(schedule),
      parts_(lowered_for(planned, schedule)),
      steps_(schedule),
      shown_(shown_actions(steps_, schedule.workers())),
      traces_(traces_of(outcome)) {
  join_lists(traces_);
  draw_messages(traces_);
  // What is measured is the first replica.
  const auto first_of_others = traces_.begin() + schedule.workers();
  const std::vector<runtime::WorkerTrace> others(first_of_others, traces_.end());
  traces_.erase(first_of_others, traces_.end());
  const auto steps = whole_steps(traces_, shown_, full_steps(planned, outcome));
  if (steps.empty())
    why_not_ = why_no_step(outcome, steps_, traces_);
  else
    measure(planned, outcome, steps);
  traces_.insert(traces_.end(), others.begin(), others.end());
}

// `steps` are of the spans that are there; what is drawn over them comes last.
void TracedRun::measure(const Planned& planned, const Outcome& outcome,
                        const std::vector<StepSpans>& steps) {
  const partitioner::Plan& plan = planned.plan;
  costs_ = measured_costs(schedule_, shown_, steps, schedmp::shares_of(plan));
  costs_->bytes.resize(plan.stages.size());
  schedmp::add_message_bytes(planned.model, plan, *costs_);
  schedmp::add_kept_bytes(planned.model, plan, parts_, *costs_);
  const auto timeline = schedmp::simulate(planned.model, plan, parts_, schedule_,
                                          partitioner::request_of_plan(plan).speed);
  KERF_CHECK(timeline.has_value(), "a schedule that ran waits for ever as simulated");
  const ShownTimeline predicted = shown(*timeline);
  const UsedMemory memory{uses_of(parts_, steps_, schedule_.workers()),
                          outcome.training->verdict().peak_bytes};
  for (const StepSpans& each : steps)
    draw_memory(traces_, memory, predicted.place, "memory", measured_rows(each, shown_),
                each.begin_ns());
  const StepSpans& median = steps[median_step(steps, shown_, steps_.go_on())];
  if (schedule_.actions() <= kMostKept)
    step_ = traced_step(schedule_, partitioner::stage_graph_of(planned.model, plan), predicted.rows,
                        measured_rows(median, shown_), {median.step, steps_.go_on()});
  else
    why_not_ = format("a step of more than {} actions is not kept; its trace is", kMostKept);
  draw_memory(traces_, memory, predicted.place, "memory, predicted", predicted.rows,
              median.begin_ns());
  const PredictedStep drawn{*timeline, median.step, median.begin_ns()};
  draw_predicted(traces_, drawn);
}

const schedmp::ActionCosts& TracedRun::costs() const {
  if (!costs_)
    throw Error(ErrorCode::kUnavailable, format("nothing was measured: {}", why_not_),
                "--save-costs");
  return *costs_;
}

}  // namespace kerf::apps
