#include "partitioner/cuts/group_search.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "partitioner/at.h"

namespace kerf::partitioner {

namespace {

constexpr int kMostGroupBoundaries = 40;  // of groups of any size
constexpr int kLimits = 12;               // for the dearest stage, up to twice the least
constexpr int kManyWorkers = 16;          // of groups of any size; beyond, powers of two

std::vector<GroupShape> shapes_of(int workers, bool by_feature) {
  std::vector<GroupShape> shapes{{workers, Way::kFeature}};
  if (!by_feature && workers > 1) shapes.push_back({workers, Way::kSample});
  return shapes;
}

// First the dearest stage, then the sum of all.
struct Cost {
  double dearest = GroupPrices::kNever;
  double sum = GroupPrices::kNever;
  bool operator<(const Cost& other) const {
    return std::pair(dearest, sum) < std::pair(other.dearest, other.sum);
  }
};

// Stages of given sizes, boundary by boundary.
class GivenSizes {
 public:
  GivenSizes(GroupPrices& prices, Groups groups, const GroupSet& by_feature)
      : prices_(prices), groups_(std::move(groups)), by_feature_(by_feature) {
    int first = 0;
    for (const Group& group : groups_) {
      paces_.push_back(prices.pace(first, group.shape.workers));
      first += group.shape.workers;
    }
  }

  Groups best() {
    const int stages = static_cast<int>(groups_.size());
    for (int stage = 0; stage < stages; ++stage) fill(stage);
    const std::vector<State>& last = states_.back();
    size_t shape = last.size() / at(prices_.layers() + 1) - 1;
    const size_t end = at(prices_.layers());
    for (size_t other = 0; other < shape; ++other)
      if (last[index(other, end)].cost < last[index(shape, end)].cost) shape = other;
    trace(shape);
    return std::move(groups_);
  }

 private:
  struct State {
    Cost cost;
    int begin = -1;
    size_t before = 0;  // which shape
  };
  size_t index(size_t shape, size_t end) const { return shape * at(prices_.layers() + 1) + end; }

  std::vector<GroupShape> shapes_of_stage(size_t stage) const {
    return shapes_of(groups_[stage].shape.workers, by_feature_[stage]);
  }

  void fill(int stage) {
    const auto shapes = shapes_of_stage(at(stage));
    const int layers = prices_.layers();
    const int after = static_cast<int>(groups_.size()) - stage - 1;  // stages
    std::vector<State> states(shapes.size() * at(layers + 1));
    for (size_t s = 0; s < shapes.size(); ++s)
      for (int end = stage + 1; end <= layers - after; ++end)
        for (int begin = stage == 0 ? 0 : stage; begin < (stage == 0 ? 1 : end); ++begin)
          reach(stage, shapes[s], begin, end, states[index(s, at(end))]);
    states_.push_back(std::move(states));
  }

  void reach(int stage, GroupShape shape, int begin, int end, State& state) {
    const auto before =
        stage == 0 ? std::vector<GroupShape>{shape} : shapes_of_stage(at(stage) - 1);
    for (size_t b = 0; b < before.size(); ++b) {
      const Cost from = stage == 0 ? Cost{0, 0} : states_[at(stage) - 1][index(b, at(begin))].cost;
      if (from.dearest >= GroupPrices::kNever) continue;
      const double price = prices_.price(begin, end, shape, before[b]);
      if (price >= GroupPrices::kNever) continue;
      const double own = price * paces_[at(stage)];
      const Cost cost{std::max(from.dearest, own), from.sum + own};
      if (cost < state.cost) state = {cost, begin, b};
    }
  }

  void trace(size_t shape) {
    int end = prices_.layers();
    for (size_t stage = groups_.size(); stage-- > 0;) {
      const State& state = states_[stage][index(shape, at(end))];
      groups_[stage].end = end;
      groups_[stage].shape = shapes_of_stage(stage)[shape];
      end = state.begin;
      shape = state.before;
    }
  }

  GroupPrices& prices_;
  Groups groups_;
  const GroupSet by_feature_;
  std::vector<double> paces_;               // by stage
  std::vector<std::vector<State>> states_;  // by stage: by shape and end
};

// Stages of any sizes.
class AnySizes {
 public:
  AnySizes(GroupPrices& prices, int workers, bool samples_only)
      : prices_(prices), workers_(workers), boundaries_(chosen_boundaries(prices)) {
    for (int size = 1; size < workers; ++size) {
      if (workers > kManyWorkers && (size & (size - 1)) != 0) continue;
      if (!samples_only || size == 1) shapes_.push_back({size, Way::kFeature});
      if (size > 1) shapes_.push_back({size, Way::kSample});
    }
    known_.assign(boundaries_.size() * boundaries_.size() * shapes_.size() * shapes_.size(), -1);
  }

  // The least sum where no stage is dearer than the limit; without one, the least dearest.
  std::optional<std::pair<Cost, Groups>> best(std::optional<double> limit) {
    limit_ = limit;
    states_.assign(boundaries_.size() * at(workers_ + 1) * shapes_.size(), {});
    for (size_t end = 1; end < boundaries_.size(); ++end)
      for (size_t begin = 0; begin < end; ++begin)
        for (size_t s = 0; s < shapes_.size(); ++s)
          for (size_t before = 0; before < (begin == 0 ? 1 : shapes_.size()); ++before)
            reach(begin, end, s, before);
    const size_t end = boundaries_.size() - 1;
    size_t best = 0;
    for (size_t s = 1; s < shapes_.size(); ++s)
      if (is_less(state(end, workers_, s).cost, state(end, workers_, best).cost)) best = s;
    if (state(end, workers_, best).cost.sum >= GroupPrices::kNever) return std::nullopt;
    return std::pair(state(end, workers_, best).cost, traced(best));
  }

 private:
  struct State {
    Cost cost;
    size_t begin = 0;
    size_t before = 0;  // shape
  };

  // Those between which the work is about the same, where little crosses.
  static std::vector<int> chosen_boundaries(const GroupPrices& prices) {
    std::vector<int> chosen{0};
    const int layers = prices.layers();
    const double each = prices.work_before(layers) / kMostGroupBoundaries;
    for (int boundary = 1; boundary < layers; ++boundary) {
      const auto stretch = [&](int b) { return static_cast<int>(prices.work_before(b) / each); };
      const bool same = chosen.size() > 1 && stretch(chosen.back()) == stretch(boundary);
      if (layers <= kMostGroupBoundaries || !same)
        chosen.push_back(boundary);
      else if (prices.crossing_bytes(boundary) < prices.crossing_bytes(chosen.back()))
        chosen.back() = boundary;
    }
    chosen.push_back(layers);
    return chosen;
  }

  bool is_less(const Cost& a, const Cost& b) const { return limit_ ? a.sum < b.sum : a < b; }
  State& state(size_t end, int used, size_t shape) {
    return states_[(end * at(workers_ + 1) + at(used)) * shapes_.size() + shape];
  }

  // Found once: a limit asks for it again.
  double price(size_t begin, size_t end, size_t shape, size_t before) {
    const size_t stretch = begin * boundaries_.size() + end;
    double& known = known_[(stretch * shapes_.size() + shape) * shapes_.size() + before];
    if (known < 0)
      known = prices_.price(boundaries_[begin], boundaries_[end], shapes_[shape], shapes_[before]);
    return known;
  }

  // Such a last stage, behind all that can be before it.
  void reach(size_t begin, size_t end, size_t shape, size_t before) {
    const double own = price(begin, end, shape, before);
    if (own >= GroupPrices::kIdle || (limit_ && own > *limit_)) return;
    const int workers = shapes_[shape].workers;
    for (int used = begin == 0 ? workers : workers + 1; used <= workers_; ++used) {
      const Cost from = begin == 0 ? Cost{0, 0} : state(begin, used - workers, before).cost;
      if (from.sum < GroupPrices::kNever) {
        const Cost cost{std::max(from.dearest, own), from.sum + own};
        State& to = state(end, used, shape);
        if (is_less(cost, to.cost)) to = {cost, begin, before};
      }
      if (begin == 0) break;
    }
  }

  Groups traced(size_t shape) {
    Groups groups;
    int used = workers_;
    for (size_t end = boundaries_.size() - 1; end > 0;) {
      const State& last = state(end, used, shape);
      groups.push_back({boundaries_[end], shapes_[shape]});
      used -= shapes_[shape].workers;
      end = last.begin;
      shape = last.before;
    }
    std::reverse(groups.begin(), groups.end());
    return groups;
  }

  GroupPrices& prices_;
  const int workers_;
  const std::vector<int> boundaries_;
  std::vector<GroupShape> shapes_;
  std::vector<double> known_;  // prices; negative: not found yet
  std::optional<double> limit_;
  std::vector<State> states_;
};

}  // namespace

Groups best_boundaries(GroupPrices& prices, Groups groups, const GroupSet& by_feature) {
  return GivenSizes(prices, std::move(groups), by_feature).best();
}

std::vector<Groups> best_groups(GroupPrices& prices, int workers, int micro_batches, size_t most) {
  if (prices.layers() < 2 || workers < 2) return {};
  std::vector<std::pair<double, Groups>> found;
  const auto add = [&](const std::pair<Cost, Groups>& one) {
    const double step = one.first.sum + (micro_batches - 1) * one.first.dearest;
    const auto same = [&](const auto& other) { return other.second == one.second; };
    if (std::none_of(found.begin(), found.end(), same)) found.emplace_back(step, one.second);
  };
  AnySizes any(prices, workers, false);
  if (const auto least = any.best({})) {
    add(*least);
    for (int i = 0; i < kLimits; ++i)
      if (const auto one = any.best(least->first.dearest * (1 + static_cast<double>(i) / kLimits)))
        add(*one);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (found.size() > most) found.resize(most);
  if (const auto replicated = AnySizes(prices, workers, true).best({})) add(*replicated);
  std::vector<Groups> result;
  for (auto& [step, groups] : found) result.push_back(std::move(groups));
  return result;
}

}  // namespace kerf::partitioner
