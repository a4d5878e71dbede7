// The hybrid cut: stages of consecutive layers, each divided over a group of workers, by feature or
// by sample, whichever is cheaper.
//
//   stage 0: conv1 ... conv4   by sample    on workers 0 1 2
//   stage 1: fc1 fc2 loss      by feature   on workers 3 4
//
// A layer is a one-to-all operator with its followers; stages are whole layers. With one layer per
// stage and F parts per stage a boundary costs F * F messages each way. Boundaries are those that
// dynamic programming over the prices of layers finds best (group_search.h). Where they can stand
// in few ways, all are then priced as plans; else each moves to its best place near by, until
// tries run out: prices of layers say little of branches that cross several stages, and nothing of
// memory.
#include "partitioner/cuts/hybrid.h"

#include <algorithm>
#include <functional>

#include "partitioner/at.h"
#include "partitioner/cuts/group_search.h"
#include "partitioner/cuts/idle_parts.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/least_memory.h"
#include "partitioner/sources.h"

namespace kerf::partitioner {
namespace {

constexpr double kWorthAnotherWay = 0.05;  // of the dearest stage: prices are not exact

// How good boundaries are: first that every part computes something, then that memory is enough.
struct Score {
  size_t idle = 0;   // parts
  int64_t over = 0;  // bytes above the cap
  double price = GroupPrices::kNever;

  bool is_better_than(const Score& other) const {
    if (idle != other.idle) return idle < other.idle;
    if (over != other.over) return over < other.over;
    return price < other.price_to_beat();
  }
  // Prices are sums, of which the last digits are noise.
  double price_to_beat() const { return price * (1 - 1e-12); }
};

class Boundaries {
 public:
  // `may_be`: whether the model is rewritten as such groups need it.
  Boundaries(const CutTask& task, std::function<bool(const Groups&)> may_be, NodeWorks& works,
             Groups groups, double bound)
      : task_(task),
        may_be_(std::move(may_be)),
        works_(works),
        bound_(bound),
        tries_left_(std::clamp(kMostNodes / task.model.nodes(), kFewestTries, kMostTries)),
        groups_(std::move(groups)),
        best_(assigned(groups_)),
        score_(score(best_, GroupPrices::kNever)) {}

  // The best of all where they are few; else each boundary goes to its best place near by until
  // none has a better one, or all tries are used up. Where nothing can fit, they stay.
  void settle() {
    if (is_out_of_reach(task_.model, task_.request)) return;
    if (ways() <= tries_left_)
      try_all();
    else
      move_each();
  }
  bool is_better_than(const Boundaries& other) const { return score_.is_better_than(other.score_); }
  Assignment take() { return std::move(best_); }

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
      tried(groups);
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
        if (end >= first && end <= last && tries_left_ > 0 && tried(groups)) moved = true;
      }
    return moved;
  }

  bool tried(const Groups& groups) {
    if (!may_be_(groups)) return false;
    --tries_left_;
    Assignment assignment = assigned(groups);
    // What is dearer is known to be soon enough; under a cap it may be better all the same.
    const bool capped = task_.request.is_capped();
    const Score other = score(assignment, capped ? GroupPrices::kNever : score_.price_to_beat());
    if (!other.is_better_than(score_)) return false;
    score_ = other;
    best_ = std::move(assignment);
    groups_ = groups;
    return true;
  }

  Assignment assigned(const Groups& groups) const {
    return assigned_to_groups(task_.model, task_.request, groups, bound_);
  }

  Score score(const Assignment& assignment, double enough) const {
    Score score;
    score.idle = idle_parts(task_.model, task_.request, assignment.division).size();
    if (score.idle > 0) return score;
    std::vector<int> stage_of;
    for (size_t s = 0; s < assignment.stages.size(); ++s)
      stage_of.resize(stage_of.size() + assignment.stages[s].parts.size(), static_cast<int>(s));
    score.price = bottleneck_of(Sources(task_.model, assignment.division, std::move(stage_of)),
                                task_.request, works_, enough);
    if (!task_.request.is_capped()) return score;
    const std::vector<int64_t> peaks = task_.peaks(assignment, std::nullopt);
    for (size_t stage = 0; stage < peaks.size(); ++stage)
      for (const int worker : assignment.stages[stage].parts)
        if (const auto cap = task_.request.cap_of(worker))
          score.over = std::max(score.over, peaks[stage] - *cap);
    return score;
  }

  const CutTask& task_;
  const std::function<bool(const Groups&)> may_be_;
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

bool one_goes_by_sample(const Groups& groups) {
  return std::any_of(groups.begin(), groups.end(),
                     [](const Group& group) { return group.shape.way == Way::kSample; });
}

// What the dearest stage costs.
double dearest_of(GroupPrices& prices, const Groups& groups) {
  double dearest = 0;
  int begin = 0;
  int worker = 0;
  for (size_t s = 0; s < groups.size(); ++s) {
    const GroupShape shape = groups[s].shape;
    const GroupShape before = groups[s == 0 ? 0 : s - 1].shape;
    dearest = std::max(dearest, prices.price(begin, groups[s].end, shape, before) *
                                    prices.pace(worker, shape.workers));
    begin = groups[s].end;
    worker += shape.workers;
  }
  return dearest;
}

// By feature. A node is on the group of any stage that its layer can be in.
std::vector<Rewrite> rewrites_wherever_stages_end(const Model& model, const PlanRequest& request,
                                                  const Groups& of_stages) {
  std::vector<std::vector<int>> groups;
  int worker = 0;
  for (const Group& group : of_stages) {
    groups.push_back(parts_from(worker, group.shape.workers));
    worker += group.shape.workers;
  }
  const std::vector<size_t> layer_of = layer_of_nodes(model);
  const size_t layers = layer_of.back() + 1;
  return rewrites_for_spread(model, request, groups, [&](NodeId node, size_t group) {
    const size_t before = layer_of[at(node)];
    return before >= group && layers - before >= groups.size() - group;
  });
}

}  // namespace

HybridCut::HybridCut(const Model& model, const PlanRequest& request)
    : model_(model), prices_(model, request), bound_(even_share(model, request)) {}

void HybridCut::refuse_idle_parts(const Model& model, const PlanRequest& request,
                                  const Assignment& assignment) {
  const auto idle = idle_parts(model, request, assignment.division);
  if (idle.empty()) return;
  size_t stage = 0;
  while (assignment.stages[stage].parts.back() < idle.front()) ++stage;
  const std::vector<int>& group = assignment.stages[stage].parts;
  if (has_a_slow_device(request, idle.front(), group))
    refuse_idle(request, idle.front(),
                format("{} of stage {}; {}, or use other --stages", kTooSlowForUnits, stage,
                       without_idle(request, idle)));
  refuse_idle(request, idle.front(),
              format("no layer of stage {} has features for all of its {} workers; {}, or other "
                     "--stages",
                     stage, group.size(),
                     request.speed.capacities.empty() ? "use fewer --workers"
                                                      : without_idle(request, idle)));
}

Groups HybridCut::by_feature(const PlanRequest& request) {
  return best_boundaries(prices_,
                         even_groups(request.workers, stages_of(model_, request, prices_.layers())),
                         GroupSet().set());
}

Groups HybridCut::groups(const PlanRequest& request) {
  Groups features = by_feature(request);
  if (request.by_feature.all() || request.updates_within || !request.pairs) return features;
  Groups either = best_boundaries(prices_, features, request.by_feature);
  if (request.by_feature.any()) return either;
  const bool cheaper =
      dearest_of(prices_, either) < dearest_of(prices_, features) * (1 - kWorthAnotherWay);
  return cheaper ? either : features;
}

std::vector<Rewrite> HybridCut::rewrites_for(const PlanRequest& request,
                                             const Groups& groups) const {
  if (one_goes_by_sample(groups)) return rewrites_of_groups(model_, request, groups);
  return rewrites_wherever_stages_end(model_, request, groups);
}

std::vector<Rewrite> HybridCut::rewrites(const PlanRequest& request) {
  return rewrites_for(request, groups(request));
}

Assignment HybridCut::make(const CutTask& task) {
  const PlanRequest& request = task.request;
  NodeWorks works(task.model, request);
  const auto is_rewritten_for = [&](const Groups& groups) {
    return rewrites_for(request, groups) == task.model.rewrites();
  };
  const auto any = [](const Groups&) { return true; };
  const auto may_be = [&](const Groups& groups) {
    return dearest_of(prices_, groups) < GroupPrices::kIdle && is_rewritten_for(groups);
  };
  const Groups features = by_feature(request);
  Groups either = groups(request);
  std::optional<Boundaries> best;
  if (one_goes_by_sample(either) && is_rewritten_for(either)) {
    best.emplace(task, may_be, works, std::move(either), bound_).settle();
    // Prices are not exact: where both ways can be had of this model, the plans themselves tell.
    if (is_rewritten_for(features)) {
      Boundaries other(task, any, works, features, bound_);
      other.settle();
      if (other.is_better_than(*best)) best.emplace(std::move(other));
    }
  } else {
    best.emplace(task, any, works, features, bound_).settle();
  }
  Assignment made = best->take();
  refuse_idle_parts(task.model, request, made);
  return made;
}

std::vector<Rewrite> rewrites_for_hybrid(const Model& model, const PlanRequest& request) {
  return HybridCut(model, request).rewrites(request);
}

std::optional<Assignment> cut_hybrid(const CutTask& task) {
  return HybridCut(task.model.as_read(), task.request).make(task);
}

}  // namespace kerf::partitioner
