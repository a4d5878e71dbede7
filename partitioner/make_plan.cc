// From a request to a plan: cut, connect, bind, predict; and what to change when nothing fits.
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "partitioner/cut.h"

namespace kerf::partitioner {

namespace {

void check_request(const PlanRequest& request) {
  const auto fail = [](std::string reason) { throw Error(ErrorCode::kUsage, std::move(reason)); };
  if (request.workers < 1) fail(format("--workers {}: needs at least 1", request.workers));
  if (request.batch < 1) fail(format("--batch {}: needs at least 1", request.batch));
  if (request.micro_batches < 1)
    fail(format("--micro-batches {}: needs at least 1", request.micro_batches));
  if (request.micro_batches > request.batch)
    fail(format("--micro-batches {}: a batch of {} rows has no more than {}", request.micro_batches,
                request.batch, request.batch));
  if (request.memory && *request.memory < 1)
    fail(format("--memory {}: needs at least 1 byte", *request.memory));
}

// The first that fits is taken.
std::vector<Assignment> cut(const Model& model, const PlanRequest& request,
                            const Objective& objective) {
  switch (request.cut) {
    case Cut::kLayer:
      return cut_layer(model, request, objective);
    case Cut::kFeature:
      return {cut_feature(model, request)};
    case Cut::kHybrid:
      return {cut_hybrid(model, request)};
    case Cut::kFree:
      return {cut_free(model, request)};
  }
  throw Error(ErrorCode::kInternal, "there is no such cut");
}

Plan connect_and_predict(const Model& model, const PlanRequest& request, const Objective& objective,
                         Assignment assignment) {
  Plan plan;
  plan.model = model.name();
  plan.fingerprint = model.fingerprint();
  plan.cut = request.cut;
  plan.batch = request.batch;
  plan.micro_batches = request.micro_batches;
  plan.schedule = request.schedule;
  plan.request = {request.source, request.memory, request.minimise, request.setting};
  plan.stages = std::move(assignment.stages);
  plan.layouts = complete_layouts(model, std::move(assignment.layouts));
  plan.binding.resize(static_cast<size_t>(request.workers));
  std::iota(plan.binding.begin(), plan.binding.end(), 0);
  plan.routes = connect(model, plan.layouts);
  plan.bottleneck = assignment.bottleneck;
  plan.bound = assignment.bound;
  plan.workers = predict(model, plan, request, objective);
  return plan;
}

// The stage of the worker that is most over the cap, if any is.
std::optional<Infeasible> check_memory(const Plan& plan, int64_t cap) {
  const auto most =
      std::max_element(plan.workers.begin(), plan.workers.end(),
                       [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; });
  if (most == plan.workers.end() || most->peak_bytes <= cap) return std::nullopt;
  Infeasible result;
  for (size_t s = 0; s < plan.stages.size(); ++s)
    for (const int part : plan.stages[s].parts)
      if (plan.binding[static_cast<size_t>(part)] == most->worker)
        result.stage = static_cast<int>(s);
  result.cap = cap;
  result.over = most->peak_bytes - cap;
  result.smallest_change = format("--memory {}", most->peak_bytes);
  return result;
}

// The first candidate that meets the cap; else the one that is least over it, if there is any.
using Attempt = std::variant<Plan, std::optional<Infeasible>>;
Attempt try_all(const Model& model, const PlanRequest& request, const Objective& objective,
                std::vector<Assignment> candidates) {
  std::optional<Infeasible> least;
  for (Assignment& assignment : candidates) {
    Plan plan = connect_and_predict(model, request, objective, std::move(assignment));
    const auto over = request.memory ? check_memory(plan, *request.memory) : std::nullopt;
    if (!over) return plan;
    if (!least || over->over < least->over) least = over;
  }
  return least;
}

Attempt try_plan(const Model& model, const PlanRequest& request, const Objective& objective) {
  return try_all(model, request, objective, cut(model, request, objective));
}

bool fits(const Model& model, const PlanRequest& request, const Objective& objective) {
  try {
    return std::holds_alternative<Plan>(try_plan(model, request, objective));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return false;  // no plan at all, so none that fits
  }
}

// The fewest micro-batches, up to four times the request's, that fit; 0 if none do. Only numbers
// that make the largest micro-batch smaller can help.
int more_micro_batches(const Model& model, PlanRequest request, const Objective& objective) {
  const int64_t most = std::min<int64_t>(request.batch, int64_t{4} * request.micro_batches);
  std::set<int64_t> tried{(request.batch + request.micro_batches - 1) / request.micro_batches};
  for (int64_t m = request.micro_batches + 1; m <= most; ++m) {
    if (!tried.insert((request.batch + m - 1) / m).second) continue;
    request.micro_batches = static_cast<int>(m);
    if (fits(model, request, objective)) return request.micro_batches;
  }
  return 0;
}

// The fewest workers, up to twice the request's, that fit; 0 if none do.
int more_workers(const Model& model, PlanRequest request, const Objective& objective) {
  if (request.cut == Cut::kFree) return 0;  // its workers are those of the shares file
  const int most = 2 * request.workers;
  while (++request.workers <= most)
    if (fits(model, request, objective)) return request.workers;
  return 0;
}

// Smaller micro-batches cost nothing but time, more workers are there to be had, more memory
// perhaps not: the first of these that is enough.
void find_smallest_change(const Model& model, const PlanRequest& request,
                          const Objective& objective, Infeasible& infeasible) {
  if (const int m = more_micro_batches(model, request, objective); m > 0)
    infeasible.smallest_change = format("--micro-batches {}", m);
  else if (const int w = more_workers(model, request, objective); w > 0)
    infeasible.smallest_change = format("--workers {}", w);
}

}  // namespace

std::string Infeasible::text() const {
  std::string text = format(
      "no plan fits: stage {} needs {} ({} bytes) more than the memory cap of {} bytes per worker; "
      "the "
      "smallest change that fits is {}",
      stage, human_bytes(static_cast<double>(over)), over, cap, smallest_change);
  if (!smallest_change.starts_with("--memory")) text += format(", or --memory {}", cap + over);
  return text;
}

std::variant<Plan, Infeasible> make_plan(const Model& model, const PlanRequest& request,
                                         const Objective& objective) {
  check_request(request);
  model.check();
  Attempt attempt = try_plan(model, request, objective);
  if (request.cut == Cut::kLayer && !std::holds_alternative<Plan>(attempt))
    attempt = try_all(model, request, objective, cut_layer_without_cap(model, request, objective));
  if (auto* plan = std::get_if<Plan>(&attempt)) return std::move(*plan);
  Infeasible infeasible = std::get<std::optional<Infeasible>>(attempt).value();
  find_smallest_change(model, request, objective, infeasible);
  return infeasible;
}

}  // namespace kerf::partitioner
