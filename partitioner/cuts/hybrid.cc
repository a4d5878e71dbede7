// The hybrid cut: stages of consecutive layers, each divided by feature over a group of workers.
//
//   stage 0: fc1 relu1 fc2 relu2   on workers 0 1 2
//   stage 1: fc3 loss              on workers 3 4
//
// A layer is a one-to-all operator with its followers; stages are whole layers. With one layer per
// stage and F parts per stage a boundary costs F * F messages each way. Boundaries begin where a
// line of the layers has them best; each moves to its best place until none would lower the price.
#include <algorithm>
#include <set>

#include "partitioner/at.h"
#include "partitioner/connected_plan.h"
#include "partitioner/cuts/line_search.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/model_graph.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {
namespace {

struct Layer {
  std::vector<NodeId> nodes;
  double work = 0;  // on one worker
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
    layers.back().work +=
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

std::vector<int> layer_of_nodes(const Model& model, const std::vector<Layer>& layers) {
  std::vector<int> layer_of(at(model.nodes()));
  for (size_t layer = 0; layer < layers.size(); ++layer)
    for (const NodeId node : layers[layer].nodes) layer_of[at(node)] = static_cast<int>(layer);
  return layer_of;
}

// What each member of a group receives of the values between layers: all of one that comes from
// another group, else what the other members have of it. The latter is the reader's work wherever
// the boundaries are, the rest is paid where one of them parts the two.
void add_values(const CostGraph& graph, const std::vector<int>& layer_of,
                const std::vector<std::vector<int>>& groups, Units& units) {
  size_t smallest = groups.front().size();
  for (const std::vector<int>& group : groups) smallest = std::min(smallest, group.size());
  for (const CostValue& value : graph.values()) {
    std::set<int> readers;
    for (const int node : value.readers) readers.insert(layer_of[at(node)]);
    const int producer = layer_of[at(value.producer)];
    readers.erase(producer);
    if (readers.empty()) continue;
    for (size_t group = 0; group < groups.size(); ++group) {
      const double others = 1 - 1 / static_cast<double>(groups[group].size());
      units.work[group][at(*readers.begin())] += others * value.enter;
    }
    units.values.push_back({producer, {readers.begin(), readers.end()}, value.bytes});
    units.values.back().enter = value.enter / static_cast<double>(smallest);
  }
}

// Ends of runs of consecutive layers, one for each group, so that the largest price per worker is
// least, or nearly so. A group is a device as many times as fast as it has workers.
std::vector<int> balance(const Model& model, const PlanRequest& request,
                         const std::vector<Layer>& layers,
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
      work.push_back(layer.work / static_cast<double>(group.size()));
  }
  add_values(cost_graph_of(model, request), layer_of_nodes(model, layers), groups, units);
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

class Boundaries {
 public:
  Boundaries(const Model& model, const PlanRequest& request)
      : model_(model),
        request_(request),
        layers_(layers_of(model, request)),
        groups_(groups_of(request.workers, stages_of(model, request, layers_.size()))),
        ends_(balance(model, request, layers_, groups_)),
        best_(assigned(ends_)),
        price_(price(best_)) {}

  // No boundary alone would lower the price elsewhere, or all tries are used up.
  Assignment settled() {
    for (size_t boundary = 0, unmoved = 0; unmoved + 1 < ends_.size();) {
      unmoved = move(boundary) ? 0 : unmoved + 1;
      boundary = (boundary + 1) % (ends_.size() - 1);
    }
    return std::move(best_);
  }

 private:
  static constexpr int kMostTries = 400;  // each connects and prices a plan

  // To the best of all places between its neighbours, which it tries from the nearest on.
  bool move(size_t boundary) {
    const int from = ends_[boundary];
    const int first = boundary == 0 ? 1 : ends_[boundary - 1] + 1;
    const int last = ends_[boundary + 1] - 1;
    std::vector<int> ends = ends_;
    bool moved = false;
    for (int distance = 1; distance <= last - first; ++distance)
      for (const int end : {from - distance, from + distance}) {
        if (end < first || end > last || tries_++ >= kMostTries) continue;
        ends[boundary] = end;
        moved = take(ends) || moved;
      }
    return moved;
  }

  bool take(const std::vector<int>& ends) {
    Assignment assignment = assigned(ends);
    const double other = price(assignment);
    if (other >= price_) return false;
    price_ = other;
    best_ = std::move(assignment);
    ends_ = ends;
    return true;
  }

  // A group may be larger than its layers have features.
  double price(const Assignment& assignment) const {
    if (std::ssize(busy_parts(assignment.division)) < request_.workers) return kNever;
    return bottleneck_of(model_, connected_plan(model_, request_, assignment), request_);
  }

  Assignment assigned(const std::vector<int>& ends) const {
    std::vector<Stage> stages;
    size_t layer = 0;
    for (size_t s = 0; s < ends.size(); ++s) {
      Stage stage{{}, groups_[s]};
      for (; layer < static_cast<size_t>(ends[s]); ++layer)
        stage.nodes.insert(stage.nodes.end(), layers_[layer].nodes.begin(),
                           layers_[layer].nodes.end());
      stages.push_back(std::move(stage));
    }
    return spread_all(model_, request_, std::move(stages),
                      std::vector<std::optional<ops::Layout>>(static_cast<size_t>(model_.nodes())));
  }

  const Model& model_;
  const PlanRequest& request_;
  const std::vector<Layer> layers_;
  const std::vector<std::vector<int>> groups_;
  std::vector<int> ends_;  // of each stage, exclusive, in layers
  Assignment best_;
  double price_;
  int tries_ = 0;
};

}  // namespace

Assignment cut_hybrid(const Model& model, const PlanRequest& request) {
  return check_busy(request, Boundaries(model, request).settled());
}

}  // namespace kerf::partitioner
