// The hybrid cut: stages of consecutive layers, each divided by feature over a group of workers.
//
//   stage 0: fc1 relu1 fc2 relu2   on workers 0 1 2
//   stage 1: fc3 loss              on workers 3 4
//
// A layer is a one-to-all operator with its followers; stages are whole layers. With one layer per
// stage and F parts per stage a boundary costs F * F messages each way.
#include <algorithm>

#include "partitioner/cuts/line_search.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {
namespace {

struct Layer {
  std::vector<NodeId> nodes;
  double price = 0;  // on one worker
};

std::vector<Layer> layers_of(const Model& model, const PlanRequest& request) {
  std::vector<Layer> layers(1);
  bool begun =
      false;  // the first layer has its one-to-all operator; what comes before belongs to it
  for (NodeId node = 0; node < model.nodes(); ++node) {
    if (is_one_to_all(model, node)) {
      if (begun) layers.emplace_back();
      begun = true;
    }
    layers.back().nodes.push_back(node);
    layers.back().price +=
        node_work(model, request, node, whole_division(model, node, 0).shares[0].box).total();
  }
  return layers;
}

// The workers of each stage.
std::vector<std::vector<int>> groups_of(int workers, int stages) {
  std::vector<std::vector<int>> groups;
  for (const ops::IndexSet& share : ops::split_evenly(workers, stages)) {
    std::vector<int>& group = groups.emplace_back();
    for (const ops::Range& range : share.ranges(workers))
      for (int64_t part = range.begin; part < range.end; ++part)
        group.push_back(static_cast<int>(part));
  }
  return groups;
}

// Ends of runs of consecutive layers, one for each group, so that the largest price per worker is
// least. A group is a device as many times as fast as it has workers.
std::vector<int> balance(const std::vector<Layer>& layers,
                         const std::vector<std::vector<int>>& groups) {
  Units units;
  StageLimits limits;
  std::vector<int> order;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    units.members.push_back({static_cast<int>(layer)});
    order.push_back(static_cast<int>(layer));
  }
  for (const std::vector<int>& group : groups) {
    limits.device_type.push_back(static_cast<int>(units.work.size()));
    limits.micro_batches.push_back(1);
    limits.memory.push_back(kNever);
    std::vector<double>& work = units.work.emplace_back();
    for (const Layer& layer : layers)
      work.push_back(layer.price / static_cast<double>(group.size()));
  }
  const Line line(units, std::move(order));
  const LineSearch search(line, limits);
  return search.fewest_bytes(search.least_bottleneck(0, kNever), false).ends;
}

int stages_of(const Model& model, const PlanRequest& request, size_t layers) {
  const int stages = request.stages > 0 ? request.stages : std::min(2, request.workers);
  if (stages > request.workers)
    throw Error(ErrorCode::kInfeasible,
                format("{} stages need at least {} workers, not {}; give --workers {} or more, or "
                       "fewer stages",
                       stages, stages, request.workers, stages));
  if (stages > static_cast<int>(layers))
    throw Error(
        ErrorCode::kInfeasible,
        format("{} has {} layers to begin a stage with, fewer than {} stages; use {} stages "
               "or fewer, or the feature cut",
               model.name(), layers, stages, layers));
  return stages;
}

}  // namespace

Assignment cut_hybrid(const Model& model, const PlanRequest& request) {
  const auto layers = layers_of(model, request);
  const int count = stages_of(model, request, layers.size());
  const auto groups = groups_of(request.workers, count);
  const auto ends = balance(layers, groups);
  std::vector<Stage> stages;
  size_t layer = 0;
  for (size_t s = 0; s < ends.size(); ++s) {
    Stage stage{{}, groups[s]};
    for (; layer < static_cast<size_t>(ends[s]); ++layer)
      stage.nodes.insert(stage.nodes.end(), layers[layer].nodes.begin(), layers[layer].nodes.end());
    stages.push_back(std::move(stage));
  }
  return spread_all(model, request, std::move(stages),
                    std::vector<std::optional<ops::Layout>>(static_cast<size_t>(model.nodes())));
}

}  // namespace kerf::partitioner
