// The hybrid cut: stages of consecutive layers, each divided by feature over a group of workers.
//
//   stage 0: fc1 relu1 fc2 relu2   on workers 0 1 2
//   stage 1: fc3 loss              on workers 3 4
//
// A layer is a one-to-all operator with its followers; stages are whole layers. With one layer per
// stage and F parts per stage a boundary costs F * F messages each way. Where boundaries can
// stand in a few hundred ways, all are priced as plans. Else they begin where a line of the layers
// has them best, and each moves to its best place near by, until tries run out.
#include <algorithm>
#include <numeric>
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

// What each member of a group receives of the values between layers: of one from another group a
// piece from each who has one, else what the other members have of it. The latter is the reader's
// work wherever the boundaries are, the rest is paid where one of them parts the two.
void add_values(const CostGraph& graph, const PlanRequest& request,
                const std::vector<int>& layer_of, const std::vector<std::vector<int>>& groups,
                Units& units) {
  size_t smallest = groups.front().size();
  for (const std::vector<int>& group : groups) smallest = std::min(smallest, group.size());
  for (const CostValue& value : graph.values()) {
    std::set<int> readers;
    for (const int node : value.readers) readers.insert(layer_of[at(node)]);
    const int producer = layer_of[at(value.producer)];
    readers.erase(producer);
    if (readers.empty()) continue;
    const double messages = request.micro_batches * (value.returned_bytes > 0 ? 2.0 : 1.0);
    for (size_t group = 0; group < groups.size(); ++group) {
      const auto others = static_cast<double>(groups[group].size() - 1);
      units.work[group][at(*readers.begin())] +=
          wire_price(request, value.bytes * others / (others + 1), messages * others);
    }
    units.values.push_back({producer, {readers.begin(), readers.end()}, value.bytes});
    units.values.back().enter =
        wire_price(request, value.bytes / static_cast<double>(smallest), messages);
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
    double slowest = request.speed.capacities.speed_of(group.front());  // all have as much to do
    for (const int worker : group)
      slowest = std::min(slowest, request.speed.capacities.speed_of(worker));
    for (const Layer& layer : layers)
      work.push_back(layer.work / (slowest * static_cast<double>(group.size())));
  }
  add_values(cost_graph_of(model, request), request, layer_of_nodes(model, layers), groups, units);
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

// How good boundaries are: first that every part computes something, then that memory is enough.
struct Score {
  size_t idle = 0;   // parts
  int64_t over = 0;  // bytes above the cap
  double price = kNever;

  // Prices are sums, of which the last digits are noise.
  bool is_better_than(const Score& other) const {
    if (idle != other.idle) return idle < other.idle;
    if (over != other.over) return over < other.over;
    return price < other.price * (1 - 1e-12);
  }
};

class Boundaries {
 public:
  explicit Boundaries(const CutTask& task)
      : task_(task),
        layers_(layers_of(task.model, task.request)),
        groups_(
            groups_of(task.request.workers, stages_of(task.model, task.request, layers_.size()))),
        bound_(even_share(task.model, task.request)),
        ends_(balance(task.model, task.request, layers_, groups_)),
        best_(assigned(ends_)),
        score_(score(best_)) {}

  // The best of all where they are few; else each boundary goes to its best place near by until
  // none has a better one, or all tries are used up.
  Assignment settled() {
    if (are_few())
      try_all();
    else
      move_each();
    return std::move(best_);
  }

  // The stage of a part.
  size_t stage_of(int part) const {
    size_t stage = 0;
    while (groups_[stage].back() < part) ++stage;
    return stage;
  }

 private:
  static constexpr int kMostTries = 400;  // plans to price; a move that began is finished

  size_t boundaries() const { return ends_.size() - 1; }
  int layers() const { return static_cast<int>(layers_.size()); }

  // Ways to choose the boundaries.
  bool are_few() const {
    double ways = 1;
    for (size_t i = 1; i <= boundaries(); ++i)
      ways *= static_cast<double>(layers_.size() - i) / static_cast<double>(i);
    return ways <= kMostTries;
  }

  void try_all() {
    std::vector<int> ends(ends_.size());
    std::iota(ends.begin(), ends.end(), 1);
    ends.back() = layers();
    for (;;) {
      take(ends);
      size_t last = boundaries();  // that can move on
      while (last > 0 && ends[last - 1] + 1 == ends[last]) --last;
      if (last == 0) return;
      std::iota(ends.begin() + static_cast<std::ptrdiff_t>(last) - 1, ends.end() - 1,
                ends[last - 1] + 1);
    }
  }

  void move_each() {
    for (size_t boundary = 0, settled = 0; settled < boundaries() && tries_ < kMostTries;) {
      settled = move(boundary) ? 1 : settled + 1;
      boundary = (boundary + 1) % boundaries();
    }
  }

  // Tries the places between its neighbours from the nearest on.
  bool move(size_t boundary) {
    const int from = ends_[boundary];
    const int first = boundary == 0 ? 1 : ends_[boundary - 1] + 1;
    const int last = ends_[boundary + 1] - 1;
    const int furthest = std::max(1, kMostTries / static_cast<int>(4 * boundaries()));
    std::vector<int> ends = ends_;
    bool moved = false;
    for (int distance = 1; distance <= std::min(furthest, last - first); ++distance)
      for (const int end : {from - distance, from + distance}) {
        ends[boundary] = end;
        if (end >= first && end <= last && take(ends)) moved = true;
      }
    return moved;
  }

  bool take(const std::vector<int>& ends) {
    ++tries_;
    Assignment assignment = assigned(ends);
    const Score other = score(assignment);
    if (!other.is_better_than(score_)) return false;
    score_ = other;
    best_ = std::move(assignment);
    ends_ = ends;
    return true;
  }

  Score score(const Assignment& assignment) const {
    Score score;
    score.idle = idle_parts(task_.model, task_.request, assignment.division).size();
    if (score.idle > 0) return score;
    score.price = bottleneck_of(task_.model, connected_plan(task_.model, task_.request, assignment),
                                task_.request);
    if (!task_.request.is_capped()) return score;
    const std::vector<int64_t> peaks = task_.peaks(assignment);
    for (size_t stage = 0; stage < peaks.size(); ++stage)
      for (const int worker : groups_[stage])
        if (const auto cap = task_.request.cap_of(worker))
          score.over = std::max(score.over, peaks[stage] - *cap);
    return score;
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
    const std::vector<std::optional<ops::Layout>> none(at(task_.model.nodes()));
    return spread_all(task_.model, task_.request, std::move(stages), bound_, none);
  }

  const CutTask& task_;
  const std::vector<Layer> layers_;
  const std::vector<std::vector<int>> groups_;
  const double bound_;
  std::vector<int> ends_;  // of each stage, exclusive, in layers
  Assignment best_;
  Score score_;
  int tries_ = 0;
};

}  // namespace

// A node is on the group of any stage that its layer can be in.
std::vector<Rewrite> rewrites_for_hybrid(const Model& model, const PlanRequest& request) {
  const std::vector<Layer> layers = layers_of(model, request);
  const auto groups = groups_of(request.workers, stages_of(model, request, layers.size()));
  const std::vector<int> layer_of = layer_of_nodes(model, layers);
  return rewrites_for_spread(model, request, groups, [&](NodeId node, size_t group) {
    const size_t before = at(layer_of[at(node)]);
    return before >= group && layers.size() - before >= groups.size() - group;
  });
}

std::optional<Assignment> cut_hybrid(const CutTask& task) {
  Boundaries boundaries(task);
  Assignment best = boundaries.settled();
  if (const auto idle = idle_parts(task.model, task.request, best.division); !idle.empty()) {
    const size_t stage = boundaries.stage_of(idle.front());
    refuse_idle(task.request, idle.front(),
                format("no layer of stage {} has features for all of its {} workers; use fewer "
                       "--workers, or other --stages",
                       stage, best.stages[stage].parts.size()));
  }
  return best;
}

}  // namespace kerf::partitioner
