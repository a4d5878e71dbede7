#include "partitioner/choose_plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/line_splits.h"

namespace kerf::partitioner {

namespace {

int64_t bytes_of(const Plan& plan) {
  int64_t sum = 0;
  for (const WorkerPrediction& worker : plan.workers) sum += worker.bytes_out;
  return sum;
}

// Operators in model order as stages of one worker each, by the simulated step.
class LayersByStep {
 public:
  struct Found {
    std::vector<int> ends;
    Plan plan;
    double step_seconds = 0;
    int64_t bytes = 0;
  };

  LayersByStep(const Model& model, const PlanRequest& request, const InFlight& in_flight,
               const Objective& objective, double bound)
      : model_(model),
        request_(request),
        in_flight_(in_flight),
        objective_(objective),
        bound_(bound),
        tries_(std::clamp(kMostNodes / model.nodes(), kFewestTries, kMostTries)) {}

  std::optional<Found> best() {
    const int stages = request_.workers;
    if (stages > model_.nodes()) return std::nullopt;
    if (ways() <= tries_) {
      try_all(stages);
    } else {
      for (auto& ends : first_splits(chain_of(model_, request_), stages)) take(ends);
      while (found_ && move_any()) {
      }
    }
    return std::move(found_);
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
    const std::vector<int> from = found_->ends;
    bool moved = false;
    for (const int distance : {1, -1, 2, -2, 4, -4})
      for (size_t boundary = 0; boundary + 1 < from.size() && tries_ > 0; ++boundary) {
        std::vector<int> ends = found_->ends;
        ends[boundary] += distance;
        const int first = boundary == 0 ? 1 : ends[boundary - 1] + 1;
        if (ends[boundary] < first || ends[boundary] >= ends[boundary + 1]) continue;
        if (!tried_.contains(ends)) moved = take(ends) || moved;
      }
    return moved && tries_ > 0;
  }

  bool take(const std::vector<int>& ends) {
    tried_.insert(ends);
    const Assignment assignment = assigned(ends);
    if (parts_a_parameter(assignment)) return false;
    --tries_;
    Plan plan = assigned_plan(model_, request_, in_flight_, assignment);
    for (const WorkerPrediction& worker : plan.workers)
      if (const auto cap = request_.cap_of(worker.worker); cap && worker.peak_bytes > *cap)
        return false;
    const auto seconds = objective_.step_seconds(model_, plan, request_.speed);
    if (!seconds) return false;
    const int64_t bytes = bytes_of(plan);
    if (found_ && std::tuple(*seconds, bytes) >= std::tuple(found_->step_seconds, found_->bytes))
      return false;
    found_ = {ends, std::move(plan), *seconds, bytes};
    return true;
  }

  Assignment assigned(const std::vector<int>& ends) const {
    Assignment result;
    result.bound = bound_;
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

  // Operators that share one live on one worker, as in every layer cut.
  bool parts_a_parameter(const Assignment& assignment) const {
    const auto part_of = [&](const Use& use) {
      return assignment.division.nodes[at(use.node)].shares[0].part;
    };
    for (const ValueId id : model_.parameters()) {
      const auto& uses = model_.uses(id);
      for (const Use& use : uses)
        if (part_of(use) != part_of(*uses.begin())) return true;
    }
    return false;
  }

  const Model& model_;
  const PlanRequest& request_;
  const InFlight& in_flight_;
  const Objective& objective_;
  double bound_;
  int tries_;  // left
  std::set<std::vector<int>> tried_;
  std::optional<Found> found_;
};

class Choosing {
 public:
  Choosing(const Model& model, const PlanRequest& request, const InFlight& in_flight,
           const Objective& objective)
      : model_(model), request_(request), in_flight_(in_flight), objective_(objective) {
    request_.placement.clear();
    request_.stages = 0;
  }

  std::variant<Choice, Infeasible> choose() {
    for (size_t row = 0; row < cuts().size(); ++row) {
      request_.cut = static_cast<Cut>(row);
      const std::string name(cuts()[row].name);
      if (request_.cut == Cut::kFree && request_.shares.empty() &&
          request_.speed.capacities.empty())
        continue;
      if (request_.cut != Cut::kHybrid) try_row(name);
      if (request_.cut == Cut::kLayer) try_layers_by_step();
      for (int stages = 2; request_.cut == Cut::kHybrid && stages <= request_.workers; ++stages) {
        request_.stages = stages;
        try_row(format("{} in {} stages", name, stages));
      }
      request_.stages = 0;
    }
    if (!best_) return nothing_fits();
    best_->tried = std::move(tried_);
    return *std::move(best_);
  }

 private:
  void try_row(std::string how) {
    Tried& tried = tried_.emplace_back();
    tried.how = std::move(how);
    try {
      Model model = model_for(model_, request_);
      auto plan = plan_within(model, request_, in_flight_);
      if (!plan) {
        tried.why_not = "no such plan is within the memory cap";
        return;
      }
      if (request_.cut == Cut::kLayer) layer_bound_ = plan->bound.value_or(0);
      const auto seconds = objective_.step_seconds(model, *plan, request_.speed);
      if (!seconds)
        tried.why_not = "the schedule cannot run it";
      else
        propose(tried, std::move(model), *std::move(plan), *seconds);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      tried.why_not = error.message();
      if (!first_error_) first_error_ = error;
    }
  }

  void try_layers_by_step() {
    try {
      Model model = model_for(model_, request_);
      LayersByStep search(model, request_, in_flight_, objective_, layer_bound_);
      auto found = search.best();
      if (!found) return;  // what the layer cut's own line says holds
      Tried& tried = tried_.emplace_back();
      tried.how = "layer, by step";
      propose(tried, std::move(model), std::move(found->plan), found->step_seconds);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;  // else as the layer cut's own
    }
  }

  void propose(Tried& tried, Model model, Plan plan, double seconds) {
    tried.step_seconds = seconds;
    tried.bytes = bytes_of(plan);
    const std::tuple cost(seconds, tried.bytes);
    if (best_ && cost >= best_cost_) return;
    best_cost_ = cost;
    best_ = Choice{std::move(model), std::move(plan), {}};
  }

  // The first cut that fails for want of memory says what would do.
  Infeasible nothing_fits() {
    for (const Cut cut : {Cut::kLayer, Cut::kFeature}) {
      request_.cut = cut;
      try {
        auto answer = make_plan(model_for(model_, request_), request_, in_flight_);
        if (const auto* infeasible = std::get_if<Infeasible>(&answer)) return *infeasible;
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kInternal) throw;
      }
    }
    if (first_error_) throw *first_error_;
    throw Error(ErrorCode::kInfeasible, "the schedule can run no plan of any cut; use another one");
  }

  const Model& model_;
  PlanRequest request_;
  const InFlight& in_flight_;
  const Objective& objective_;
  double layer_bound_ = 0;
  std::vector<Tried> tried_;
  std::optional<Error> first_error_;
  std::optional<Choice> best_;
  std::tuple<double, int64_t> best_cost_;
};

}  // namespace

std::variant<Choice, Infeasible> choose_plan(const Model& model, const PlanRequest& request,
                                             const InFlight& in_flight,
                                             const Objective& objective) {
  return Choosing(model, request, in_flight, objective).choose();
}

}  // namespace kerf::partitioner
