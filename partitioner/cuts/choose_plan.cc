#include "partitioner/choose_plan.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "partitioner/connected_plan.h"
#include "partitioner/cuts/find_hybrids.h"
#include "partitioner/cuts/least_seconds.h"
#include "partitioner/cuts/least_shortage.h"
#include "partitioner/cuts/space.h"
#include "partitioner/cuts/steered_layers.h"
#include "partitioner/in_parallel.h"
#include "partitioner/layers_by_step.h"
#include "partitioner/least_memory.h"
#include "partitioner/model_graph.h"
#include "partitioner/rewrite.h"
#include "partitioner/sums.h"

namespace kerf::partitioner {

namespace {

int64_t bytes_sent(const Model& model, const Plan& plan) {
  const std::vector<Traffic> traffic = predict_traffic(model, plan, plan.batch);
  int64_t sum = 0;
  for (size_t r = 0; r < plan.routes.size(); ++r)
    if (!is_local(plan, plan.routes[r])) sum += traffic[r].bytes;
  return sum;
}

class Choosing {
 public:
  Choosing(const Model& model, const PlanRequest& request, const InFlight& in_flight,
           const Objective& objective, const OnTry& on_try)
      : model_(model),
        request_(request),
        slack_(request.slack),
        without_pairs_(request.steering.without_pairs),
        in_flight_(in_flight),
        objective_(objective),
        on_try_(on_try) {
    check_slack(slack_);
    request_.placement.clear();
    request_.stages = 0;
    request_.slack = request_.steering.slack = 0;  // which is not the layer cut's own
    request_.steering.without_pairs = false;       // nor does it speak of any operator
  }

  std::variant<Choice, Infeasible> choose() {
    for (size_t row = 0; row < cuts().size(); ++row) {
      request_.cut = static_cast<Cut>(row);
      if (request_.cut == Cut::kHybrid)
        try_hybrids();
      else if (request_.cut != Cut::kFree || !request_.shares.empty() ||
               !request_.speed.capacities.empty())
        try_row(std::string(cuts()[row].name));
      else
        try_free();
      if (request_.cut == Cut::kLayer) try_layers_by_step();
      if (request_.cut == Cut::kFeature) try_without_pairs();
    }
    bound_all();
    weigh_all();
    auto best = take_best();
    if (!best) return nothing_fits();
    best->tried = std::move(tried_);
    return *std::move(best);
  }

 private:
  // A plan to be, and what becomes of it.
  struct Candidate {
    size_t tried = 0;  // which it is of tried_
    Model model;
    Cut cut{};
    bool pairs = true;
    std::string pattern;  // of a free cut
    Assignment assignment;
    std::unique_ptr<const Sources> sources = nullptr;  // while they are needed
    std::unique_ptr<const Sums> sums = nullptr;
    Plan plan = {};       // bound; of one that was weighed connected, and under a cap predicted
    double at_least = 0;  // seconds of its step
    std::optional<StepCost> cost = std::nullopt;
    bool above_cap = false;
    std::exception_ptr fault = nullptr;
  };

  // Tells of it, and takes what comes of it.
  template <class Find>
  void attempt(std::string how, const Find& find) {
    if (on_try_) on_try_(how);
    take(std::move(how), find);
  }
  // What speaks against it is what it throws, but for faults of Kerf's.
  template <class Find>
  void take(std::string how, const Find& find) {
    tried_.emplace_back().how = std::move(how);
    try {
      tried_.back().why_not = find();
    } catch (const Error& error) {
      note(error, tried_.back());
    }
  }
  void note(const Error& error, Tried& tried) {
    if (error.code() == ErrorCode::kInternal) throw error;
    tried.why_not = error.message();
    if (!first_error_) first_error_ = error;
  }

  // Empty: nothing speaks against it yet.
  std::string propose(Model model, std::optional<Assignment> assignment) {
    if (!assignment) return "no such plan is within the memory cap";
    for (const Candidate& earlier : candidates_)
      if (request_.cut != Cut::kHybrid && divides_alike(earlier, model, *assignment))
        return format("it is divided as {} is", tried_[earlier.tried].how);
    candidates_.push_back({tried_.size() - 1, std::move(model), request_.cut, request_.pairs,
                           request_.steering.pattern, *std::move(assignment)});
    return "";
  }
  static bool divides_alike(const Candidate& earlier, const Model& model,
                            const Assignment& assignment) {
    return earlier.assignment.stages.size() == 1 && assignment.stages.size() == 1 &&
           earlier.model.rewrites() == model.rewrites() &&
           earlier.assignment.division.nodes == assignment.division.nodes;
  }

  void try_row(std::string how) {
    attempt(std::move(how), [&]() -> std::string {
      Model model = model_for(model_, request_);
      model.check();
      if (request_.is_capped() || model.has_whole_inputs()) {
        const auto plan = plan_within(model, request_, in_flight_);
        // Under a cap it may be of what fits alone, and divisions by step are looked at before.
        if (plan && request_.cut == Cut::kLayer && !request_.is_capped())
          layer_bound_ = {plan->bound.value_or(0), plan->witness.text};
        return propose(std::move(model), plan ? std::optional(assignment_of(*plan)) : std::nullopt);
      }
      const CutRow& row = cuts()[static_cast<size_t>(request_.cut)];
      auto assignment = row.make({model, request_, in_flight_, {}});
      KERF_CHECK(assignment, "{} found nothing without a cap", row.name);
      if (request_.cut == Cut::kLayer) layer_bound_ = {assignment->bound, assignment->witness};
      return propose(std::move(model), *std::move(assignment));
    });
  }

  void try_without_pairs() {
    if (!request_.pairs) return;
    request_.pairs = false;
    try_row("feature, without pairs");
    request_.pairs = true;
  }

  // Of devices that are alike, where no shares are given.
  void try_free() {
    if (has_space_to_divide(model_, request_)) try_row("free, by space");
    if (!request_.steering.empty()) return;
    request_.steering.pattern = "even";
    try_row("free, evenly");
    request_.steering.pattern.clear();
  }

  void try_layers_by_step() {
    if (is_out_of_reach(model_, request_)) return;
    if (on_try_) on_try_("layer, by step");
    Candidate candidate{0, model_, request_.cut, request_.pairs, {}, {}};
    double least = std::numeric_limits<double>::infinity();
    const StepCostOf cost_of = [&](const Assignment& assignment) -> std::optional<StepCost> {
      candidate.assignment = assignment;
      candidate.above_cap = false;
      candidate.cost.reset();
      bound(candidate);
      if (candidate.at_least > least) return std::nullopt;
      weigh(candidate);
      if (candidate.fault) std::rethrow_exception(candidate.fault);
      if (candidate.cost) least = std::min(least, candidate.cost->seconds);
      return candidate.cost;
    };
    std::optional<Assignment> found;
    try {
      found = best_layers_by_step(model_, request_, bound_of_layers(), cost_of);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;  // else as the layer cut's own
    }
    if (found) take("layer, by step", [&] { return propose(model_, *std::move(found)); });
  }

  Bound bound_of_layers() const {
    if (layer_bound_.value > 0) return layer_bound_;
    const CostGraph graph = cost_graph_of(model_, request_);
    return bound_of_loads(model_, request_, graph, units_of(graph));
  }

  void try_hybrids() {
    for (FoundHybrid& found : find_hybrids(model_, request_, in_flight_, on_try_))
      take(std::move(found.how), [&] {
        if (found.fault) std::rethrow_exception(found.fault);
        return propose(std::move(found.model), std::move(found.assignment));
      });
  }

  PlanRequest request_of(const Candidate& candidate) const {
    PlanRequest request = request_;
    request.cut = candidate.cut;
    request.pairs = candidate.pairs;
    request.steering.pattern = candidate.pattern;
    return request;
  }

  // Finds where everything comes from, and what that alone says of the step.
  void bound(Candidate& candidate) const {
    candidate.at_least = 0;
    try {
      const PlanRequest request = request_of(candidate);
      candidate.plan = bound_plan(candidate.model, request, candidate.assignment);
      candidate.sources = std::make_unique<Sources>(candidate.model, candidate.plan.division,
                                                    stages_of_parts(candidate.plan));
      candidate.sums = std::make_unique<Sums>(*candidate.sources);
      candidate.at_least =
          least_seconds(*candidate.sums, candidate.plan, request, in_flight_.splits());
    } catch (...) {
      candidate.fault = std::current_exception();
    }
  }

  // Connects what is bound, predicts it where there is a cap, and simulates its step if it is
  // within that.
  void weigh(Candidate& candidate) const {
    if (candidate.fault) return;
    try {
      const PlanRequest request = request_of(candidate);
      add_connectors(*candidate.sums, candidate.plan);
      if (request.is_capped()) candidate.plan = predicted(candidate, std::move(candidate.plan));
      for (const WorkerPrediction& worker : candidate.plan.workers)
        if (const auto cap = request.cap_of(worker.worker); cap && worker.peak_bytes > *cap)
          candidate.above_cap = true;
      if (candidate.above_cap) return;
      if (const auto seconds =
              objective_.step_seconds(*candidate.sums, candidate.plan, request.speed))
        candidate.cost = {*seconds, bytes_sent(candidate.model, candidate.plan)};
    } catch (...) {
      candidate.fault = std::current_exception();
    }
  }
  Plan predicted(const Candidate& candidate, Plan connected) const {
    return predicted_plan(candidate.model, request_of(candidate), in_flight_,
                          {candidate.assignment.bound, candidate.assignment.witness},
                          std::move(connected));
  }

  // Each of `count`, by itself.
  void each_of(size_t count, const char* what, const std::function<void(size_t)>& work) const {
    in_parallel(count, work, [&](size_t i) {
      if (on_try_) on_try_(format("{} {} of {}", what, i + 1, count));
    });
  }

  void bound_all() {
    each_of(candidates_.size(), "bound", [&](size_t i) { bound(candidates_[i]); });
  }

  // The most promising first; what cannot be chosen any more is left as it is.
  void weigh_all() {
    std::vector<size_t> order(candidates_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return candidates_[a].at_least < candidates_[b].at_least;
    });
    std::atomic<double> least = std::numeric_limits<double>::infinity();
    each_of(order.size(), "step", [&](size_t i) {
      Candidate& candidate = candidates_[order[i]];
      if (candidate.at_least > limit_of(least)) return;
      weigh(candidate);
      candidate.sums.reset();
      candidate.sources.reset();
      if (!candidate.cost) return;
      for (double known = least; candidate.cost->seconds < known;)
        if (least.compare_exchange_weak(known, candidate.cost->seconds)) break;
    });
  }

  // Of the seconds that a plan may take which is chosen for its bytes.
  double limit_of(double least) const { return least * (1 + slack_); }

  double least() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : candidates_)
      if (candidate.cost) least = std::min(least, candidate.cost->seconds);
    return least;
  }

  // Of those that take no more than they may, the one that sends least. What is told of each does
  // not depend on which of them happened to be weighed before it was clear that they take longer.
  std::optional<Choice> take_best() {
    const double limit = limit_of(least());
    Candidate* best = nullptr;
    const auto key = [](const Candidate& each) {
      return std::tuple(each.cost->bytes, each.cost->seconds, each.tried);
    };
    for (Candidate& candidate : candidates_) {
      if (!tell(candidate, limit) || candidate.cost->seconds > limit) continue;
      if (best == nullptr || key(candidate) < key(*best)) best = &candidate;
    }
    if (best == nullptr) return std::nullopt;
    // It was connected only, where no cap asked for predictions of all.
    if (best->plan.workers.empty()) best->plan = predicted(*best, std::move(best->plan));
    Steering& asked = best->plan.request->steering;
    asked.automatic = true;
    asked.slack = slack_;
    asked.without_pairs = without_pairs_;
    return Choice{std::move(best->model), std::move(best->plan), {}};
  }

  // What became of it; whether it was weighed and may run.
  bool tell(const Candidate& candidate, double limit) {
    Tried& tried = tried_[candidate.tried];
    if (candidate.at_least > limit) {
      tried.why_not = format("its step takes {:.3g} s at least", candidate.at_least);
      return false;
    }
    try {
      if (candidate.fault) std::rethrow_exception(candidate.fault);
    } catch (const Error& error) {
      note(error, tried);
      return false;
    }
    if (!candidate.cost) {
      tried.why_not = candidate.above_cap ? "no such plan is within the memory cap"
                                          : "the schedule cannot run it";
      return false;
    }
    tried.step_seconds = candidate.cost->seconds;
    tried.bytes = candidate.cost->bytes;
    return true;
  }

  Infeasible nothing_fits() const {
    std::vector<const Plan*> above_cap;
    for (const Candidate& candidate : candidates_)
      if (candidate.above_cap && request_.memory) above_cap.push_back(&candidate.plan);
    if (auto least = least_shortage(model_, request_, in_flight_, above_cap)) return *least;
    if (first_error_) throw *first_error_;
    throw Error(ErrorCode::kInfeasible, "the schedule can run no plan of any cut; use another one");
  }

  const Model& model_;
  PlanRequest request_;
  const double slack_;
  const bool without_pairs_;  // as it was asked
  const InFlight& in_flight_;
  const Objective& objective_;
  const OnTry& on_try_;
  Bound layer_bound_;  // that the layer cut proved
  std::vector<Tried> tried_;
  std::optional<Error> first_error_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::variant<Choice, Infeasible> choose_plan(const Model& model, const PlanRequest& request,
                                             const InFlight& in_flight, const Objective& objective,
                                             const OnTry& on_try) {
  return Choosing(model, request, in_flight, objective, on_try).choose();
}

}  // namespace kerf::partitioner
