#include "partitioner/shared_workers.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/cuts/shared_devices.h"
#include "partitioner/cuts/steered_layers.h"
#include "partitioner/cuts/steered_units.h"
#include "partitioner/cuts/trees.h"
#include "partitioner/model_graph.h"
#include "partitioner/orders.h"
#include "partitioner/plans_within.h"
#include "partitioner/stage_price.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {
namespace {

constexpr int64_t kMoves = 100'000;       // of units, in an annealing
constexpr int kMostAnnealed = 20'000;     // that are annealed
constexpr int kMostAnnealings = 4;        // each in less memory
constexpr int kMostSwaps = 300;           // of the workers of two stages
constexpr int kLessMemory[] = {8, 4};     // by such parts
constexpr int64_t kMostLookedFor = 1024;  // micro-batches, where stages in turn do with none

class SharedWorkers {
 public:
  SharedWorkers(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                const Objective& objective, PlansWithin& plans)
      : model_(model),
        request_(request),
        in_flight_(in_flight),
        objective_(objective),
        plans_(plans),
        each_(request.steering.stages_per_worker),
        graph_(cost_graph_of(model, request)),
        units_(units_of(graph_)),
        apart_(steered_units(model, request, units_).group) {}

  std::optional<Plan> best() {
    if (const auto in_turn = plans_.find(request_)) take_in_turn(*in_turn);
    if (!request_.placement.empty()) return std::move(best_);
    // Of whose stages in turn some worker may be above its cap, and in other places none.
    if (request_.is_capped()) take_bindings_of(plans_.find(request_.without_caps()).value());
    if (const auto one = one_stage_each()) {
      take_blocks(*one);
      take_annealed(*one);
    }
    return std::move(best_);
  }

 private:
  using UnitStages = std::vector<int>;  // unit -> stage

  int workers() const { return request_.workers_bound(); }
  int stages() const { return workers() * each_; }

  // ---- what there is to choose from

  // It, and what is found in less memory: of those a worker's stages together may cost less, while
  // the search knows what each stage costs by itself.
  void take_in_turn(const Plan& plan) {
    take(plan);
    PlanRequest less = request_;
    for (const int part : kLessMemory) {
      less.memory = peak_of(plan) - peak_of(plan) / part;
      if (auto other = plans_.find(less)) {
        other->request->memory = request_.memory;
        take(*other);
      }
    }
  }
  void take(const Plan& plan) {
    if (request_.placement.empty())
      take_bindings_of(plan);
    else
      consider(plan);
  }

  void take_bindings_of(const Plan& plan) {
    consider(plan);
    UnitStages stage_of(at(units_.size()));
    for (NodeId node = 0; node < model_.nodes(); ++node)
      stage_of[at(units_.unit_of[at(node)])] = plan.stage_of(node);
    std::vector<int> there_and_back;
    for (int stage = 0; stage < stages(); ++stage) {
      const int place = stage % workers();
      there_and_back.push_back((stage / workers()) % 2 == 0 ? place : workers() - 1 - place);
    }
    consider(stage_of, there_and_back);
    consider(stage_of, by_load(plan));
  }

  // Two stages change places for as long as the heaviest worker has less by it.
  std::vector<int> by_load(Plan plan) const {
    const auto heaviest = [&] { return bottleneck_of(model_, plan, request_); };
    double least = heaviest();
    int swaps = std::clamp(kMostSwaps * 100 / std::max(1, model_.nodes()), 20, kMostSwaps);
    for (bool better = true; std::exchange(better, false);)
      for (size_t a = 0; a < plan.binding.size(); ++a)
        for (size_t b = a + 1; b < plan.binding.size() && swaps > 0; ++b) {
          if (plan.binding[a] == plan.binding[b]) continue;
          --swaps;
          std::swap(plan.binding[a], plan.binding[b]);
          if (const double now = heaviest(); now < least * (1 - 1e-9)) {
            least = now;
            better = true;
          } else {
            std::swap(plan.binding[a], plan.binding[b]);
          }
        }
    return plan.binding;
  }

  struct OneStageEach {
    UnitStages stage_of;
    std::vector<int> worker_of;  // by stage
  };
  std::optional<OneStageEach> one_stage_each() const {
    PlanRequest request = request_;
    request.steering.stages_per_worker = 1;
    std::optional<Plan> plan;
    try {
      plan = plans_.find(request);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInfeasible) throw;  // else the rules leave none
    }
    if (!plan) return std::nullopt;
    OneStageEach one{UnitStages(at(units_.size())), plan->binding};
    for (NodeId node = 0; node < model_.nodes(); ++node)
      one.stage_of[at(units_.unit_of[at(node)])] = plan->stage_of(node);
    return one;
  }

  // Each stage cut into several of equal work, where it has as many units.
  void take_blocks(const OneStageEach& one) {
    std::vector<std::vector<int>> members(one.worker_of.size());
    for (const int unit : first_order(units_)) members[at(one.stage_of[at(unit)])].push_back(unit);
    UnitStages stage_of(at(units_.size()));
    std::vector<int> worker_of;
    for (size_t s = 0; s < members.size(); ++s) {
      if (std::ssize(members[s]) < each_) return;
      cut_evenly(members[s], static_cast<int>(worker_of.size()), stage_of);
      worker_of.insert(worker_of.end(), at(each_), one.worker_of[s]);
    }
    consider(stage_of, worker_of);
  }

  void cut_evenly(const std::vector<int>& order, int first_stage, UnitStages& stage_of) const {
    double all = 0;
    for (const int unit : order) all += units_.work[0][at(unit)];
    double before = 0;
    int piece = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const double own = units_.work[0][at(order[i])];
      const auto left = static_cast<int>(order.size() - i);  // each later piece gets one
      const int wanted = all > 0 ? static_cast<int>((before + own / 2) / all * each_) : 0;
      const int next = std::clamp(wanted, piece, piece + (i > 0 ? 1 : 0));
      piece = std::min(std::max(next, each_ - left), each_ - 1);
      stage_of[at(order[i])] = first_stage + piece;
      before += own;
    }
  }

  // Units move freely between stages that share workers; where the workers take more memory than
  // they have, again in so much less. Device d is the worker of the d-th stage of one each.
  void take_annealed(const OneStageEach& one) {
    if (units_.size() > kMostAnnealed) return;
    SharedRequest shared{workers(), each_, std::vector<double>(at(workers()), kNever), kMoves, {}};
    for (const int worker : one.worker_of)
      shared.device_type.push_back(request_.speed.capacities.speed_number_of(worker));
    for (int squeeze = 0; squeeze < kMostAnnealings; ++squeeze) {
      const SharedDevices found = share_devices(units_, shared, one.stage_of);
      if (found.stage_of.empty()) return;  // nothing is within the memory
      std::vector<int> worker_of;
      for (const int device : found.device_of) worker_of.push_back(one.worker_of[at(device)]);
      const auto plan = made(found.stage_of, worker_of);
      if (!plan || !consider(*plan)) return;
      bool over = false;
      for (int device = 0; device < workers(); ++device) {
        const int worker = one.worker_of[at(device)];
        const int64_t excess = over_cap(plan->workers[at(worker)]);
        if (excess <= 0) continue;
        over = true;
        shared.memory[at(device)] = found.memory[at(device)] - static_cast<double>(excess);
      }
      if (!over) return;
    }
  }

  // ---- which is the best

  // Nothing where a stage would be empty, or what is to be apart on one worker.
  std::optional<Plan> made(const UnitStages& stage_of, const std::vector<int>& worker_of) const {
    if (meet(stage_of, worker_of)) return std::nullopt;
    Assignment assignment;
    assignment.division.largest = request_.largest_micro_batch();
    assignment.stages.resize(worker_of.size());
    for (NodeId node = 0; node < model_.nodes(); ++node) {
      const int stage = stage_of[at(units_.unit_of[at(node)])];
      assignment.stages[at(stage)].nodes.push_back(node);
      assignment.division.nodes.push_back(whole_division(model_, node, stage));
    }
    for (size_t s = 0; s < worker_of.size(); ++s) {
      if (assignment.stages[s].nodes.empty()) return std::nullopt;
      assignment.stages[s].parts = {static_cast<int>(s)};
    }
    assignment.binding = worker_of;
    const Bound bound = bound_of_loads(model_, request_, graph_, units_);
    assignment.bound = bound.value;
    assignment.witness = bound.witness;
    return assigned_plan(model_, request_, in_flight_, assignment);
  }

  bool meet(const UnitStages& stage_of, const std::vector<int>& worker_of) const {
    for (const std::vector<int>& group : apart_) {
      std::vector<int> group_of(at(workers()), -1);  // by worker
      for (int unit = 0; unit < units_.size(); ++unit) {
        int& had = group_of[at(worker_of[at(stage_of[at(unit)])])];
        const int own = group[at(unit)];
        if (own >= 0 && had >= 0 && own != had) return true;
        if (own >= 0) had = own;
      }
    }
    return false;
  }

  void consider(const UnitStages& stage_of, const std::vector<int>& worker_of) {
    if (const auto plan = made(stage_of, worker_of)) consider(*plan);
  }
  // Whether the schedule can run it.
  bool consider(const Plan& plan) {
    const auto seconds = objective_.step_seconds(model_, plan, request_.speed);
    if (!seconds) return false;
    const bool fits =
        std::all_of(plan.workers.begin(), plan.workers.end(),
                    [&](const WorkerPrediction& each) { return over_cap(each) <= 0; });
    const std::pair cost(*seconds, plan.bottleneck);
    if (!fits || (best_ && cost >= cost_)) return true;
    best_ = plan;
    cost_ = cost;
    return true;
  }

  // Bytes; none are over where there is no cap.
  int64_t over_cap(const WorkerPrediction& each) const {
    return each.peak_bytes - request_.cap_of(each.worker).value_or(each.peak_bytes);
  }

  const Model& model_;
  const PlanRequest& request_;
  const InFlight& in_flight_;
  const Objective& objective_;
  PlansWithin& plans_;  // in turn
  const int each_;      // stages
  const CostGraph graph_;
  const Units units_;
  const std::vector<std::vector<int>> apart_;  // --apart: by unit the number of the list
  std::optional<Plan> best_;
  std::pair<double, double> cost_;  // its seconds and bottleneck
};

// What would fit is told of stages in turn; from there down other places may need less.
class SmallestChange {
 public:
  SmallestChange(const Model& model, const PlanRequest& request,
                 std::function<std::optional<Plan>(const PlanRequest&)> best_within,
                 Infeasible in_turn)
      : model_(model),
        request_(request),
        best_within_(std::move(best_within)),
        lacks_(std::move(in_turn)) {}

  // Or a plan that fits, for what takes little is not always found at once under a cap of as much.
  std::variant<Plan, Infeasible> find() {
    PlanRequest wider = request_;
    wider.memory = lacks_.cap + lacks_.over;
    if (auto fitting = best_within_(wider)) {
      Plan least = least_plan(model_, wider, *std::move(fitting), best_within_);
      least.request->memory = request_.memory;
      if (is_within(least, request_)) return least;
      tell_less_memory(least);
    }
    find_fewer_micro_batches();
    return std::move(lacks_);
  }

 private:
  // Of a plan above the caps; other changes than of memory stay.
  void tell_less_memory(const Plan& plan) {
    auto less = shortage_of(plan, request_);
    if (!less || less->over >= lacks_.over) return;
    if (!lacks_.smallest_change.starts_with("--memory")) {
      less->smallest_change = std::move(lacks_.smallest_change);
      less->micro_batches = lacks_.micro_batches;
    }
    lacks_ = *std::move(less);
  }

  // By halves: each takes a search.
  void find_fewer_micro_batches() {
    const int in_turn = lacks_.micro_batches;
    int some =
        in_turn > 0 ? in_turn : static_cast<int>(std::min<int64_t>(request_.batch, kMostLookedFor));
    auto none = static_cast<int>((request_.batch - 1) / request_.largest_micro_batch());
    if (some <= none || !fits_in(some)) return;
    while (some - none > 1) {
      const int middle = none + (some - none) / 2;
      (fits_in(middle) ? some : none) = middle;
    }
    if (some != in_turn) lacks_.tell_micro_batches(request_, some);
  }
  bool fits_in(int micro_batches) const {
    PlanRequest request = request_;
    request.given_sizes.clear();
    request.micro_batches = micro_batches;
    return best_within_(request).has_value();
  }

  const Model& model_;
  const PlanRequest& request_;
  const std::function<std::optional<Plan>(const PlanRequest&)> best_within_;
  Infeasible lacks_;
};

}  // namespace

std::optional<Plan> shared_workers_within(const Model& model, const PlanRequest& request,
                                          const InFlight& in_flight, const Objective& objective) {
  PlansWithin plans(model, in_flight);
  return SharedWorkers(model, request, in_flight, objective, plans).best();
}

std::variant<Plan, Infeasible> plan_shared_workers(const Model& model, const PlanRequest& request,
                                                   const InFlight& in_flight,
                                                   const Objective& objective) {
  PlansWithin plans(model, in_flight);
  const auto best_within = [&](const PlanRequest& caps) {
    return SharedWorkers(model, caps, in_flight, objective, plans).best();
  };
  if (auto best = best_within(request)) return *std::move(best);
  auto in_turn = make_plan(model, request, in_flight);
  auto* const lacks = std::get_if<Infeasible>(&in_turn);
  if (lacks == nullptr || lacks->of_device >= 0) return in_turn;
  return SmallestChange(model, request, best_within, std::move(*lacks)).find();
}

}  // namespace kerf::partitioner
