// The layer cut of a model: the layer cut of its cost graph, each stage whole on a worker.
//
//   order     conv1 relu1 pool1 conv2 | relu2 pool2 flatten fc1 | relu3 fc2 relu4 fc3 loss
//   stage     0                       | 1                       | 2
#include <algorithm>

#include "partitioner/cuts/capped_layers.h"
#include "partitioner/cuts/layer_search.h"
#include "partitioner/cuts/steered_layers.h"
#include "partitioner/model_graph.h"
#include "partitioner/stage_graph.h"

namespace kerf::partitioner {

namespace {

void check_stages(const Model& model, const PlanRequest& request) {
  const int workers = request.workers;
  if (workers <= model.nodes()) return;
  if (!request.placement.empty())
    throw Error(
        ErrorCode::kInfeasible,
        format("the schedule has {} stages on {} workers, but {} has {} operators; use fewer "
               "--workers",
               workers, request.workers_bound(), model.name(), model.nodes()));
  throw Error(ErrorCode::kInfeasible,
              format("a layer cut gives every worker at least one operator: {} workers, but {} has "
                     "{} operators; use --workers {} or fewer, or a cut that splits operators",
                     workers, model.name(), model.nodes(), model.nodes()));
}

void check_units(const LayerSearch& search, int workers) {
  if (workers <= search.units()) return;
  throw Error(ErrorCode::kInfeasible,
              format("operators that share a parameter live on one worker, which leaves {} stages "
                     "at most, fewer than {} workers; use fewer --workers",
                     search.units(), workers));
}

StageLimits limits_of(const PlanRequest& request, const InFlight& in_flight) {
  StageLimits limits;
  std::vector<std::vector<int>> groups;
  for (int s = 0; s < request.workers; ++s) groups.push_back({request.worker_of(s)});
  limits.device_type.assign(groups.size(), 0);
  for (const Flight& flight : in_flight.of(chain_of(std::move(groups)), request.micro_batches))
    limits.micro_batches.push_back(flight.kept_for_weights);
  return limits;
}

// That of the search is of stages on workers of their own.
Bound bound_of(const Model& model, const PlanRequest& request, const LayerSearch& search) {
  if (request.workers_bound() == request.workers) return search.bound();
  const CostGraph graph = cost_graph_of(model, request);
  return bound_of_loads(model, request, graph, units_of(graph));
}

// Without a bound.
Assignment assign(const Model& model, const PlanRequest& request, const LayerDivision& division) {
  Assignment result;
  result.division.largest = request.largest_micro_batch();
  result.division.nodes.resize(static_cast<size_t>(model.nodes()));
  for (size_t s = 0; s < division.stages.size(); ++s) {
    const int part = static_cast<int>(s);
    result.stages.push_back({division.stages[s], {part}});
    for (const NodeId node : division.stages[s])
      result.division.nodes[static_cast<size_t>(node)] = whole_division(model, node, part);
  }
  return result;
}

Assignment with_bound(const Bound& bound, Assignment assignment) {
  assignment.bound = bound.value;
  assignment.witness = bound.witness;
  return assignment;
}

// Stages as they were given, with the bound of those that a search would find.
Assignment given(const CutTask& task) {
  LayerDivision division;
  division.stages.resize(static_cast<size_t>(task.request.workers));
  KERF_CHECK(task.request.given_stages.size() == static_cast<size_t>(task.model.nodes()),
             "stages of {} nodes, not {}", task.request.given_stages.size(), task.model.nodes());
  for (NodeId node = 0; node < task.model.nodes(); ++node)
    division.stages.at(static_cast<size_t>(task.request.given_stages[static_cast<size_t>(node)]))
        .push_back(node);
  const CostGraph graph = cost_graph_of(task.model, task.request);
  LayerSearch search(graph, limits_of(task.request, task.in_flight), 0, task.request.effort);
  if (task.request.workers <= search.units()) search.best();  // for its bound
  return with_bound(bound_of(task.model, task.request, search),
                    assign(task.model, task.request, division));
}

// A search that is asked by what divisions come to.
class LayerCut {
 public:
  explicit LayerCut(const CutTask& task)
      : task_(task),
        graph_(cost_graph_of(task.model, task.request)),
        search_(graph_, limits_of(task.request, task.in_flight), task.request.slack,
                task.request.effort) {
    check_units(search_, task.request.workers);
  }

  std::optional<Assignment> best() {
    if (!task_.request.memory) return found(search_.best());
    CappedLayers capped(search_, [&](const LayerDivision& division) { return over(division); });
    auto fits = capped.best();
    if (!fits) {
      auto least = least_of(capped);
      if (!least) return std::nullopt;
      if (std::ranges::max(over(*least)) > 0) {
        auto result = found(least);
        result->is_least = true;
        // Several passes take less interleaved than not, as all were looked at.
        result->is_proved_least = capped.looked_at_all() && task_.request.micro_batches > 1 &&
                                  !task_.request.updates_within;
        return result;
      }
      fits = std::move(least);
    }
    if (!task_.any_will_do) fits = capped.best_from(*std::move(fits));
    return found(fits);
  }

 private:
  std::optional<Assignment> found(const std::optional<LayerDivision>& division) const {
    if (!division) return std::nullopt;
    return with_bound(bound_of(task_.model, task_.request, search_), assignment_of(*division));
  }
  Assignment assignment_of(const LayerDivision& division) const {
    return assign(task_.model, task_.request, division);
  }

  std::vector<double> over(const LayerDivision& division) const {
    std::vector<double> over;
    for (const int64_t peak : task_.peaks(assignment_of(division), std::nullopt))
      over.push_back(static_cast<double>(peak - *task_.request.memory));
    return over;
  }

  // Under any cap the same: each stage interleaved.
  std::optional<LayerDivision> least_of(const CappedLayers& capped) const {
    return capped.least(
        [&](const LayerDivision& division, double most) {
          Assignment assignment = assignment_of(division);
          for (Stage& stage : assignment.stages) stage.interleaved = true;
          const std::vector<int64_t> peaks = task_.peaks(assignment, most);
          return std::vector<double>(peaks.begin(), peaks.end());
        },
        static_cast<double>(*task_.request.memory));
  }

  const CutTask& task_;
  const CostGraph graph_;
  LayerSearch search_;
};

}  // namespace

std::optional<Assignment> cut_layer(const CutTask& task) {
  if (steers_layers(task.request)) return cut_steered_layers(task);
  check_stages(task.model, task.request);
  if (!task.request.given_stages.empty()) return given(task);
  return LayerCut(task).best();
}

namespace {

struct Measures {
  double bottleneck = 0;
  double bytes = 0;   // forward, between layers
  double memory = 0;  // of the fullest worker
};

Measures measures_of(const CostGraph& graph, const Model& model, const Plan& plan) {
  Measures result{plan.bottleneck, cut_bytes(graph, stages_of_nodes(plan, model.nodes())), 0};
  for (const WorkerPrediction& worker : plan.workers)
    result.memory = std::max(result.memory, static_cast<double>(worker.peak_bytes));
  return result;
}

bool dominates(const Measures& a, const Measures& b) {
  constexpr double kRoom = 1 + 1e-9;
  return a.bottleneck <= b.bottleneck * kRoom && a.bytes <= b.bytes * kRoom &&
         a.memory <= b.memory * kRoom &&
         (a.bottleneck * kRoom < b.bottleneck || a.bytes * kRoom < b.bytes ||
          a.memory * kRoom < b.memory);
}

}  // namespace

std::vector<Plan> layer_front(const Model& model, const PlanRequest& request,
                              const InFlight& in_flight) {
  if (steers_layers(request))
    throw Error(ErrorCode::kUsage,
                "--front is of workers that are all alike, with a stage each: leave out --devices, "
                "--place, --together, --apart and --stages-per-worker");
  check_stages(model, request);
  const CostGraph graph = cost_graph_of(model, request);
  LayerSearch search(graph, limits_of(request, in_flight), 0, request.effort);
  check_units(search, request.workers);
  std::vector<Plan> plans;
  std::vector<Measures> measures;
  for (const LayerDivision& division : search.front(request.memory)) {
    Plan plan = assigned_plan(
        model, request, in_flight,
        with_bound(bound_of(model, request, search), assign(model, request, division)));
    const Measures its = measures_of(graph, model, plan);
    if (request.memory && its.memory > static_cast<double>(*request.memory)) continue;
    plans.push_back(std::move(plan));
    measures.push_back(its);
  }
  std::vector<Plan> front;
  for (size_t i = 0; i < plans.size(); ++i)
    if (std::none_of(measures.begin(), measures.end(),
                     [&](const Measures& other) { return dominates(other, measures[i]); }))
      front.push_back(std::move(plans[i]));
  return front;
}

}  // namespace kerf::partitioner
