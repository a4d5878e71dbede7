#include "partitioner/layers_by_step.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "partitioner/at.h"
#include "partitioner/line_splits.h"
#include "partitioner/model_graph.h"

namespace kerf::partitioner {

namespace {

class LayersByStep {
 public:
  LayersByStep(const Model& model, const PlanRequest& request, const Bound& bound,
               const StepCostOf& cost_of)
      : model_(model),
        request_(request),
        bound_(bound),
        cost_of_(cost_of),
        tries_(std::clamp(kMostNodes / model.nodes(), kFewestTries, kMostTries)) {
    const CostGraph graph = cost_graph_of(model, request);
    for (NodeId node = 0; node < model.nodes(); ++node) colour_.push_back(graph.node(node).colour);
  }

  std::optional<Assignment> best() {
    const int stages = request_.workers;
    if (stages > model_.nodes()) return std::nullopt;
    if (ways() <= tries_) {
      try_all(stages);
    } else {
      for (auto& ends : first_splits(chain_of(model_, request_), stages)) take(ends);
      while (!ends_.empty() && move_any()) {
      }
    }
    if (ends_.empty()) return std::nullopt;
    return assigned(ends_);
  }

 private:
  // Each is a plan to connect, lower and simulate, which takes as long as there are operators.
  static constexpr int kMostNodes = 10'000;
  static constexpr int kFewestTries = 24;
  static constexpr int kMostTries = 150;

  double ways() const {
    double ways = 1;
    for (int i = 1; i < request_.workers; ++i)
      ways *= static_cast<double>(model_.nodes() - i) / static_cast<double>(i);
    return ways;
  }

  void try_all(int stages) {
    std::vector<int> ends(at(stages));
    std::iota(ends.begin(), ends.end(), 1);
    ends.back() = model_.nodes();
    for (;;) {
      take(ends);
      size_t last = ends.size() - 1;  // that can move on
      while (last > 0 && ends[last - 1] + 1 == ends[last]) --last;
      if (last == 0) return;
      std::iota(ends.begin() + static_cast<std::ptrdiff_t>(last) - 1, ends.end() - 1,
                ends[last - 1] + 1);
    }
  }

  // Whether moving one boundary of the best betters it.
  bool move_any() {
    const std::vector<int> from = ends_;
    bool moved = false;
    for (const int distance : {1, -1, 2, -2, 4, -4})
      for (size_t boundary = 0; boundary + 1 < from.size() && tries_ > 0; ++boundary) {
        std::vector<int> ends = ends_;
        ends[boundary] += distance;
        const int first = boundary == 0 ? 1 : ends[boundary - 1] + 1;
        if (ends[boundary] < first || ends[boundary] >= ends[boundary + 1]) continue;
        if (!tried_.contains(ends)) moved = take(ends) || moved;
      }
    return moved && tries_ > 0;
  }

  bool take(const std::vector<int>& ends) {
    tried_.insert(ends);
    if (parts_a_colour(ends)) return false;
    --tries_;
    const auto cost = cost_of_(assigned(ends));
    if (!cost || (!ends_.empty() && *cost >= cost_)) return false;
    cost_ = *cost;
    ends_ = ends;
    return true;
  }

  Assignment assigned(const std::vector<int>& ends) const {
    Assignment result;
    result.bound = bound_.value;
    result.witness = bound_.witness;
    result.division.largest = request_.largest_micro_batch();
    NodeId node = 0;
    for (size_t s = 0; s < ends.size(); ++s) {
      const int part = static_cast<int>(s);
      Stage& stage = result.stages.emplace_back();
      stage.parts = {part};
      for (; node < ends[s]; ++node) {
        stage.nodes.push_back(node);
        result.division.nodes.push_back(whole_division(model_, node, part));
      }
    }
    return result;
  }

  // Operators of one colour live on one worker, as in every layer cut.
  bool parts_a_colour(const std::vector<int>& ends) const {
    std::map<int, size_t> stage_of;  // by colour
    NodeId node = 0;
    for (size_t s = 0; s < ends.size(); ++s)
      for (; node < ends[s]; ++node)
        if (const int colour = colour_[at(node)];
            colour >= 0 && stage_of.try_emplace(colour, s).first->second != s)
          return true;
    return false;
  }

  const Model& model_;
  const PlanRequest& request_;
  const Bound bound_;
  const StepCostOf& cost_of_;
  int tries_;                // left
  std::vector<int> colour_;  // by node; -1: none
  std::set<std::vector<int>> tried_;
  std::vector<int> ends_;  // of the best; empty: none
  StepCost cost_;          // its
};

}  // namespace

std::optional<Assignment> best_layers_by_step(const Model& model, const PlanRequest& request,
                                              const Bound& bound, const StepCostOf& cost_of) {
  return LayersByStep(model, request, bound, cost_of).best();
}

}  // namespace kerf::partitioner
