// From a request to a plan: cut, connect, bind, predict.
#include <algorithm>
#include <utility>

#include "partitioner/checked_bound.h"
#include "partitioner/connected_plan.h"
#include "partitioner/known_peaks.h"
#include "partitioner/least_memory.h"
#include "partitioner/rewrite.h"
#include "partitioner/stage_price.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {

const CutRow& row_of(Cut cut) {
  const auto row = static_cast<size_t>(cut);
  KERF_CHECK(row < cuts().size(), "cut {} is no row of the table", row);
  return cuts()[row];
}

std::optional<Infeasible> shortage_of(const Plan& plan, const PlanRequest& request) {
  const auto over = [&](const WorkerPrediction& worker) {
    const auto cap = request.cap_of(worker.worker);
    return cap ? std::max<int64_t>(0, worker.peak_bytes - *cap) : 0;
  };
  const auto most = std::max_element(
      plan.workers.begin(), plan.workers.end(),
      [&](const WorkerPrediction& a, const WorkerPrediction& b) { return over(a) < over(b); });
  if (most == plan.workers.end() || over(*most) == 0) return std::nullopt;
  Infeasible result;
  result.stage = last_stage_of(plan, most->worker);
  result.cap = request.cap_of(most->worker).value();
  result.over = over(*most);
  if (result.cap != request.memory) result.of_device = most->worker;
  result.smallest_change = result.of_device < 0 ? format("--memory {}", most->peak_bytes)
                                                : format("a device of worker {} with {} bytes",
                                                         most->worker, most->peak_bytes);
  return result;
}

namespace {

// Where the caps leave no room for stages as they are.
void interleave(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                Plan& plan) {
  std::vector<int64_t> peaks;
  for (const WorkerPrediction& worker : plan.workers) peaks.push_back(worker.peak_bytes);
  interleave_above(request, peaks, plan.binding, plan.stages);
  plan.workers = predict(model, plan, request, in_flight);
}

}  // namespace

Plan predicted_plan(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                    const Bound& bound, Plan plan) {
  KERF_CHECK(request.trains == in_flight.trains(), "schedule {} {} gradients", request.schedule,
             in_flight.trains() ? "has" : "has no");
  plan.workers = predict(model, plan, request, in_flight);
  plan.bottleneck = bottleneck_of(model, plan, request);
  Bound checked = checked_bound(bound, plan.bottleneck, model.name());
  plan.bound = checked.value;
  plan.witness.text = std::move(checked.witness);
  if (shortage_of(plan, request)) interleave(model, request, in_flight, plan);
  return plan;
}

Plan assigned_plan(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                   const Assignment& assignment) {
  return predicted_plan(model, request, in_flight, {assignment.bound, assignment.witness},
                        connected_plan(model, request, assignment));
}

namespace {

std::optional<Assignment> assign(const Model& model, const PlanRequest& request,
                                 const InFlight& in_flight, KnownPeaks& known,
                                 bool any_will_do = false) {
  const auto peaks = [&](const Assignment& assignment, std::optional<double> most) {
    if (most) return known.up_to(*most, assignment);
    if (request.cut == Cut::kLayer) return known.of(assignment, request);
    return KnownPeaks(model, request, in_flight).of(assignment, request);
  };
  return row_of(request.cut).make({model, request, in_flight, peaks, any_will_do});
}

// A plan within the caps.
std::optional<Plan> try_within(const Model& model, const PlanRequest& request,
                               const InFlight& in_flight, KnownPeaks& known) {
  const auto assignment = assign(model, request, in_flight, known);
  if (!assignment || assignment->is_least) return std::nullopt;
  Plan plan = assigned_plan(model, request, in_flight, *assignment);
  if (shortage_of(plan, request)) return std::nullopt;
  return plan;
}

}  // namespace

std::optional<Plan> try_plan(const Model& model, const PlanRequest& request,
                             const InFlight& in_flight, bool any_will_do) {
  KnownPeaks known(model, request, in_flight);
  const auto assignment = assign(model, request, in_flight, known, any_will_do);
  if (!assignment) return std::nullopt;
  return assigned_plan(model, request, in_flight, *assignment);
}

bool is_within(const std::optional<Plan>& plan, const PlanRequest& request) {
  return plan && !shortage_of(*plan, request);
}

int last_stage_of(const Plan& plan, int worker) {
  int last = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const int part : plan.stages[s].parts)
      if (plan.binding[static_cast<size_t>(part)] == worker) last = static_cast<int>(s);
  return last;
}

int64_t peak_of(const Plan& plan) {
  int64_t most = 0;
  for (const WorkerPrediction& worker : plan.workers) most = std::max(most, worker.peak_bytes);
  return most;
}

namespace {

bool fits_so(const Model& model, const PlanRequest& way, const InFlight& in_flight) {
  try {
    if (row_of(way.cut).rewrites == nullptr)
      return is_within(try_plan(model, way, in_flight, true), way);
    return is_within(try_plan(model_for(model, way), way, in_flight, true), way);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return false;  // no plan at all, so none that fits
  }
}

}  // namespace

Plan least_plan(const Model& model, PlanRequest request, Plan plan,
                const std::function<std::optional<Plan>(const PlanRequest&)>& within) {
  const int64_t finest = finest_step(model, peak_of(plan));
  for (int64_t step = peak_of(plan) / 4 + 1; step > finest;) {
    request.memory = std::max<int64_t>(1, peak_of(plan) - step);
    if (auto smaller = within(request))
      plan = *std::move(smaller);
    else
      step /= 2;
  }
  return plan;
}

bool fits(const Model& model, const PlanRequest& request, const InFlight& in_flight) {
  const Model& as_read = model.as_read();
  if (exceeds_all_caps(least_memory(as_read, request), request)) return false;
  const std::vector<PlanRequest> ways = ways_of(as_read, request);
  return std::any_of(ways.begin(), ways.end(),
                     [&](const PlanRequest& way) { return fits_so(as_read, way, in_flight); });
}

namespace {

Plan with_caps_of(const PlanRequest& asked, Plan plan) {
  plan.request->memory = asked.memory;
  plan.request->capacities = asked.speed.capacities;
  return plan;
}

// Of layer cuts the best without a cap, of others what is made under one that nothing meets: all of
// it interleaved, and of what takes less where the cut looks for that.
Plan plan_of_little(const Model& model, const PlanRequest& asked, const InFlight& in_flight,
                    KnownPeaks& known) {
  PlanRequest request = asked.without_caps();
  if (request.cut != Cut::kLayer) request.memory = 1;
  Plan plan =
      assigned_plan(model, request, in_flight, assign(model, request, in_flight, known).value());
  return with_caps_of(asked, std::move(plan));
}

// From a plan within no cap, or else from one of little memory.
Plan plan_of_less(const Model& model, const PlanRequest& asked, const InFlight& in_flight,
                  KnownPeaks& known, Plan plan) {
  const PlanRequest request = asked.without_caps();
  const int64_t least = least_memory(model, request);
  plan = least_plan(model, request, std::move(plan), [&](const PlanRequest& caps) {
    return exceeds_all_caps(least, caps) ? std::nullopt : try_within(model, caps, in_flight, known);
  });
  return with_caps_of(asked, std::move(plan));
}

// What has no batch cannot be cut into micro-batches.
void refuse_wholes(const Model& model) {
  if (!model.has_whole_inputs()) return;
  for (ValueId id = 0; id < model.values(); ++id)
    if (const Value& value = model.value(id); value.role == Role::kInput)
      throw Error(ErrorCode::kUsage,
                  format("its input {} {} is a whole without a batch: a plan wants a row for each "
                         "sample along the first axis of every input",
                         value.name, ops::to_string(value.spec.shape)),
                  model.name());
}

}  // namespace

Model model_for(const Model& model, const PlanRequest& request) {
  check_request(request);
  const CutRow& row = row_of(request.cut);
  return row.rewrites == nullptr ? model : rewritten(model, row.rewrites(model, request));
}

Plan plan_or_least(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                   KnownPeaks& known) {
  std::optional<Assignment> found;
  if (request.cut == Cut::kLayer || !exceeds_all_caps(least_memory(model, request), request))
    found = assign(model, request, in_flight, known);
  std::optional<Plan> plan;
  if (found) plan = assigned_plan(model, request, in_flight, *found);
  if (is_within(plan, request)) return *std::move(plan);
  const bool is_least = found && found->is_least;
  if (is_least && (found->is_proved_least || model.nodes() > kFewNodes)) return *std::move(plan);
  if (!is_least) plan = plan_of_little(model, request, in_flight, known);
  if (!row_of(request.cut).heeds_memory) return *std::move(plan);
  return plan_of_less(model, request, in_flight, known, *std::move(plan));
}

void check_model(const Model& model, const PlanRequest& request) {
  check_request(request);
  refuse_wholes(model);
  model.check();
}

std::optional<Plan> plan_within(const Model& model, const PlanRequest& request,
                                const InFlight& in_flight) {
  check_model(model, request);
  if (exceeds_all_caps(least_memory(model, request), request)) return std::nullopt;
  KnownPeaks known(model, request, in_flight);
  Plan plan = plan_or_least(model, request, in_flight, known);
  if (shortage_of(plan, request)) return std::nullopt;
  return plan;
}

Assignment assignment_of(const Plan& plan) {
  return {plan.stages, plan.division, plan.bound.value_or(0), plan.binding, plan.witness.text};
}

std::variant<Plan, Infeasible> plan_or_shortage(const Model& model, const PlanRequest& request,
                                                const InFlight& in_flight) {
  check_model(model, request);
  KnownPeaks known(model, request, in_flight);
  Plan plan = plan_or_least(model, request, in_flight, known);
  if (auto infeasible = shortage_of(plan, request)) return *std::move(infeasible);
  return plan;
}

void look_for_less(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                   Infeasible& infeasible) {
  if (request.cut != Cut::kHybrid || infeasible.of_device >= 0) return;
  KnownPeaks known(model, request, in_flight);
  const Plan plan = plan_of_less(model, request, in_flight, known,
                                 plan_of_little(model, request, in_flight, known));
  if (auto less = shortage_of(plan, request); less && less->over < infeasible.over)
    infeasible = *std::move(less);
}

std::variant<Plan, Infeasible> make_plan(const Model& model, const PlanRequest& request,
                                         const InFlight& in_flight) {
  auto answer = plan_or_shortage(model, request, in_flight);
  auto* const lacks = std::get_if<Infeasible>(&answer);
  if (lacks == nullptr) return answer;
  Shortage shortage{std::move(*lacks), model, request};
  find_smallest_change(request, in_flight, shortage);
  return std::move(shortage.lacks);
}

}  // namespace kerf::partitioner
