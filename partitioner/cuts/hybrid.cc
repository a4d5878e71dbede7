// The hybrid cut: stages of consecutive layers, each divided by feature over a group of workers.
//
//   stage 0: fc1 relu1 fc2 relu2   on workers 0 1 2
//   stage 1: fc3 loss              on workers 3 4
//
// A layer is a one-to-all operator with its followers; stages are whole layers. With one layer per
// stage and F parts per stage a boundary costs F * F messages each way. Boundaries are those that
// dynamic programming over the prices of layers finds best (group_search.h). Where they can stand
// in few ways, all are then priced as plans; else each moves to its best place near by, until
// tries run out: prices of layers say little of branches that cross several stages, and nothing of
// memory.
#include "partitioner/cuts/hybrid.h"

#include <algorithm>
#include <numeric>

#include "partitioner/at.h"
#include "partitioner/cuts/group_search.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/sources.h"

namespace kerf::partitioner {
namespace {

// How good boundaries are: first that every part computes something, then that memory is enough.
struct Score {
  size_t idle = 0;   // parts
  int64_t over = 0;  // bytes above the cap
  double price = GroupPrices::kNever;

  // Prices are sums, of which the last digits are noise.
  bool is_better_than(const Score& other) const {
    if (idle != other.idle) return idle < other.idle;
    if (over != other.over) return over < other.over;
    return price < other.price * (1 - 1e-12);
  }
};

class Boundaries {
 public:
  Boundaries(const CutTask& task, NodeWorks& works, Groups groups, double bound)
      : task_(task),
        works_(works),
        bound_(bound),
        tries_left_(std::clamp(kMostNodes / task.model.nodes(), kFewestTries, kMostTries)),
        groups_(std::move(groups)),
        best_(assigned(groups_)),
        score_(score(best_)) {}

  // The best of all where they are few; else each boundary goes to its best place near by until
  // none has a better one, or all tries are used up.
  Assignment settled() {
    if (ways() <= tries_left_)
      try_all();
    else
      move_each();
    return std::move(best_);
  }

 private:
  // Plans to price, each of which takes as long as there are operators.
  static constexpr int kMostNodes = 4000;
  static constexpr int kFewestTries = 8;
  static constexpr int kMostTries = 200;

  size_t boundaries() const { return groups_.size() - 1; }
  int layers() const { return groups_.back().end; }

  // To choose the boundaries.
  double ways() const {
    double ways = 1;
    for (int i = 1; i <= static_cast<int>(boundaries()); ++i) ways *= 1.0 * (layers() - i) / i;
    return ways;
  }

  void try_all() {
    Groups groups = groups_;
    for (size_t s = 0; s < boundaries(); ++s) groups[s].end = static_cast<int>(s) + 1;
    for (;;) {
      take(groups);
      size_t last = boundaries();  // that can move on
      while (last > 0 && groups[last - 1].end + 1 == groups[last].end) --last;
      if (last == 0) return;
      for (int end = groups[last - 1].end + 1; last <= boundaries(); ++last, ++end)
        groups[last - 1].end = end;
    }
  }

  // Ever further from where they are, until none has a better place next to its own.
  void move_each() {
    for (size_t boundary = 0, settled = 0; settled < boundaries() && tries_left_ > 0;) {
      settled = move(boundary) ? 1 : settled + 1;
      boundary = (boundary + 1) % boundaries();
    }
  }

  // Tries the places between its neighbours from the nearest on.
  bool move(size_t boundary) {
    const int from = groups_[boundary].end;
    const int first = boundary == 0 ? 1 : groups_[boundary - 1].end + 1;
    const int last = groups_[boundary + 1].end - 1;
    const int furthest = std::max(1, tries_left_ / static_cast<int>(4 * boundaries()));
    Groups groups = groups_;
    bool moved = false;
    for (int distance = 1; distance <= std::min(furthest, last - first); ++distance)
      for (const int end : {from - distance, from + distance}) {
        groups[boundary].end = end;
        if (end >= first && end <= last && tries_left_ > 0 && take(groups)) moved = true;
      }
    return moved;
  }

  bool take(const Groups& groups) {
    --tries_left_;
    Assignment assignment = assigned(groups);
    const Score other = score(assignment);
    if (!other.is_better_than(score_)) return false;
    score_ = other;
    best_ = std::move(assignment);
    groups_ = groups;
    return true;
  }

  Assignment assigned(const Groups& groups) const {
    return assigned_to_groups(task_.model, task_.request, groups, bound_);
  }

  Score score(const Assignment& assignment) const {
    Score score;
    score.idle = idle_parts(task_.model, task_.request, assignment.division).size();
    if (score.idle > 0) return score;
    std::vector<int> stage_of;
    for (size_t s = 0; s < assignment.stages.size(); ++s)
      stage_of.resize(stage_of.size() + assignment.stages[s].parts.size(), static_cast<int>(s));
    score.price = bottleneck_of(Sources(task_.model, assignment.division, std::move(stage_of)),
                                task_.request, works_);
    if (!task_.request.is_capped()) return score;
    const std::vector<int64_t> peaks = task_.peaks(assignment);
    for (size_t stage = 0; stage < peaks.size(); ++stage)
      for (const int worker : assignment.stages[stage].parts)
        if (const auto cap = task_.request.cap_of(worker))
          score.over = std::max(score.over, peaks[stage] - *cap);
    return score;
  }

  const CutTask& task_;
  NodeWorks& works_;
  const double bound_;
  int tries_left_;
  Groups groups_;
  Assignment best_;
  Score score_;
};

int stages_of(const Model& model, const PlanRequest& request, int layers) {
  const int stages = request.stages > 0 ? request.stages : std::min(2, request.workers);
  if (stages > request.workers)
    throw Error(ErrorCode::kInfeasible,
                format("{} stages need at least {} workers, not {}; give --workers {} or more, or "
                       "fewer stages",
                       stages, stages, request.workers, stages));
  if (stages > layers)
    throw Error(
        ErrorCode::kInfeasible,
        format("{} has {} layers to begin a stage with, fewer than {} stages; use {} stages "
               "or fewer, or the feature cut",
               model.name(), layers, stages, layers));
  return stages;
}

void refuse_idle_parts(const Model& model, const PlanRequest& request,
                       const Assignment& assignment) {
  const auto idle = idle_parts(model, request, assignment.division);
  if (idle.empty()) return;
  size_t stage = 0;
  while (assignment.stages[stage].parts.back() < idle.front()) ++stage;
  refuse_idle(request, idle.front(),
              format("no layer of stage {} has features for all of its {} workers; use fewer "
                     "--workers, or other --stages",
                     stage, assignment.stages[stage].parts.size()));
}

}  // namespace

HybridCut::HybridCut(const Model& model, const PlanRequest& request)
    : prices_(model, request), works_(model, request), bound_(even_share(model, request)) {}

Assignment HybridCut::make(const CutTask& task) {
  const int stages = stages_of(task.model, task.request, prices_.layers());
  Groups groups = best_boundaries(prices_, even_groups(task.request.workers, stages), true);
  Assignment best = Boundaries(task, works_, std::move(groups), bound_).settled();
  refuse_idle_parts(task.model, task.request, best);
  return best;
}

// A node is on the group of any stage that its layer can be in.
std::vector<Rewrite> rewrites_for_hybrid(const Model& model, const PlanRequest& request) {
  const auto layers = layers_of(model);
  const int stages = stages_of(model, request, static_cast<int>(layers.size()));
  std::vector<std::vector<int>> groups;
  int worker = 0;
  for (const Group& group : even_groups(request.workers, stages)) {
    std::vector<int>& parts = groups.emplace_back(at(group.shape.workers));
    std::iota(parts.begin(), parts.end(), worker);
    worker += group.shape.workers;
  }
  std::vector<size_t> layer_of(at(model.nodes()));
  for (size_t layer = 0; layer < layers.size(); ++layer)
    for (const NodeId node : layers[layer]) layer_of[at(node)] = layer;
  return rewrites_for_spread(model, request, groups, [&](NodeId node, size_t group) {
    const size_t before = layer_of[at(node)];
    return before >= group && layers.size() - before >= groups.size() - group;
  });
}

std::optional<Assignment> cut_hybrid(const CutTask& task) {
  return HybridCut(task.model, task.request).make(task);
}

}  // namespace kerf::partitioner
