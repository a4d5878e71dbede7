// The layer cut of a model: the layer cut of its cost graph, each stage whole on a worker.
//
//   order     conv1 relu1 pool1 conv2 | relu2 pool2 flatten fc1 | relu3 fc2 relu4 fc3 loss
//   stage     0                       | 1                       | 2
#include "partitioner/cuts/layer_search.h"
#include "partitioner/cuts/steered_layers.h"
#include "partitioner/model_graph.h"

namespace kerf::partitioner {

namespace {

void check_stages(const Model& model, int workers) {
  if (workers <= model.nodes()) return;
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

StageLimits limits_of(const CutTask& task) {
  StageLimits limits;
  for (int s = 0; s < task.request.workers; ++s) {
    limits.device_type.push_back(0);
    limits.micro_batches.push_back(
        task.in_flight.kept(s, task.request.workers, task.request.micro_batches));
  }
  return limits;
}

Assignment assign(const Model& model, const PlanRequest& request, const LayerSearch& search,
                  const LayerDivision& division) {
  Assignment result;
  result.division.largest = request.largest_micro_batch();
  result.division.nodes.resize(static_cast<size_t>(model.nodes()));
  for (size_t s = 0; s < division.stages.size(); ++s) {
    const int part = static_cast<int>(s);
    result.stages.push_back({division.stages[s], {part}});
    for (const NodeId node : division.stages[s])
      result.division.nodes[static_cast<size_t>(node)] = whole_division(model, node, part);
  }
  result.bound = search.bound().value;
  return result;
}

}  // namespace

std::optional<Assignment> cut_layer(const CutTask& task) {
  if (steers_layers(task.request)) return cut_steered_layers(task);
  check_stages(task.model, task.request.workers);
  const CostGraph graph = cost_graph_of(task.model, task.request);
  LayerSearch search(graph, limits_of(task));
  check_units(search, task.request.workers);
  const auto assignment_of = [&](const LayerDivision& division) {
    return assign(task.model, task.request, search, division);
  };
  const auto division =
      task.request.memory
          ? search.best_within(*task.request.memory,
                               [&](const LayerDivision& d) {
                                 const auto peaks = task.peaks(assignment_of(d));
                                 return std::vector<double>(peaks.begin(), peaks.end());
                               })
          : search.best();
  if (!division) return std::nullopt;
  return assignment_of(*division);
}

}  // namespace kerf::partitioner
