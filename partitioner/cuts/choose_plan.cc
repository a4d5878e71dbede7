#include "partitioner/choose_plan.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include "partitioner/connected_plan.h"
#include "partitioner/cuts/group_search.h"
#include "partitioner/cuts/hybrid.h"
#include "partitioner/cuts/space.h"
#include "partitioner/layers_by_step.h"
#include "partitioner/rewrite.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

namespace {

constexpr size_t kMostGroups = 4;  // divisions into groups of any size to simulate

int64_t bytes_sent(const Model& model, const Plan& plan) {
  const std::vector<Traffic> traffic = predict_traffic(model, plan, plan.batch);
  int64_t sum = 0;
  for (size_t r = 0; r < plan.routes.size(); ++r)
    if (!is_local(plan, plan.routes[r])) sum += traffic[r].bytes;
  return sum;
}

// "hybrid, 4 by sample then 3 by feature then 1"
std::string described(const Groups& groups) {
  std::vector<std::string> each;
  for (const Group& group : groups)
    each.push_back(group.shape.workers == 1
                       ? "1"
                       : format("{} by {}", group.shape.workers,
                                group.shape.way == Way::kSample ? "sample" : "feature"));
  return format("hybrid, {}", fmt::join(each, " then "));
}

// No step of the plan takes less: every worker begins with its first forward pass, operator by
// operator, each of which waits for what it reads of others; and computes all the rest afterwards,
// where the step has gradients.
double least_seconds(const Model& model, const Plan& plan, const PlanRequest& request,
                     bool has_gradients) {
  std::map<std::pair<ValueId, int>, std::vector<int>> senders;  // of a value to a part
  for (const Route& route : plan.routes)
    if (!route.gradient && route.leg == Leg::kDirect && !is_of_step(model, route))
      senders[{route.value, route.to}].push_back(route.from);
  const int64_t samples = counted_sizes(plan.batch, plan.micro_batches).begin()->first;
  std::vector<double> now(plan.binding.size());
  std::vector<double> rest(plan.binding.size());
  std::map<std::pair<ValueId, int>, double> made;  // when, of a value by a part
  NodeWorks works(model, request);
  for (const Computation& call : computations(model, plan.division)) {
    const auto part = static_cast<size_t>(call.part);
    for (const ValueId input : model.node(call.node).inputs)
      if (const auto found = senders.find({input, call.part}); found != senders.end())
        for (const int from : found->second) now[part] = std::max(now[part], made[{input, from}]);
    const double forward =
        node_cost(model, call.node, call.iterations, plan.division.largest, samples, request.speed)
            .forward_seconds;
    now[part] += forward;
    const double all =
        has_gradients ? works.total(call.node, call.iterations) : plan.micro_batches * forward;
    rest[part] += all - forward;
    for (const ValueId output : model.node(call.node).outputs)
      made[{output, call.part}] = now[part];
  }
  double most = 0;
  for (size_t part = 0; part < now.size(); ++part) most = std::max(most, now[part] + rest[part]);
  return most;
}

class Choosing {
 public:
  Choosing(const Model& model, const PlanRequest& request, const InFlight& in_flight,
           const Objective& objective, const OnTry& on_try)
      : model_(model),
        request_(request),
        in_flight_(in_flight),
        objective_(objective),
        on_try_(on_try) {
    request_.placement.clear();
    request_.stages = 0;
  }

  std::variant<Choice, Infeasible> choose() {
    for (size_t row = 0; row < cuts().size(); ++row) {
      request_.cut = static_cast<Cut>(row);
      if (request_.cut == Cut::kHybrid)
        try_hybrids();
      else if (request_.cut != Cut::kFree || !request_.shares.empty() ||
               !request_.speed.capacities.empty())
        try_row(std::string(cuts()[row].name));
      else if (has_space_to_divide(model_, request_))
        try_row("free, by space");
      if (request_.cut == Cut::kLayer) try_layers_by_step();
    }
    // Hybrid plans are many, and most of them wait too long for their first stages.
    const auto hybrids =
        std::stable_partition(candidates_.begin(), candidates_.end(),
                              [](const Candidate& each) { return each.cut != Cut::kHybrid; });
    const auto others = static_cast<size_t>(hybrids - candidates_.begin());
    weigh_all(0, others, std::nullopt);
    weigh_all(others, candidates_.size(), least_of(others));
    auto best = take_best();
    if (!best) return nothing_fits();
    finish(*best);
    best->tried = std::move(tried_);
    return *std::move(best);
  }

 private:
  // A plan to be, and what becomes of it.
  struct Candidate {
    size_t tried = 0;  // which it is of tried_
    Model model;
    Cut cut{};
    Assignment assignment;
    std::optional<Plan> plan = std::nullopt;
    std::optional<StepCost> cost = std::nullopt;
    std::optional<double> at_least = std::nullopt;  // seconds: too many
    std::exception_ptr fault = nullptr;
  };

  // Tells of it; what speaks against it is what it throws, but for faults of Kerf's.
  template <class Find>
  void attempt(std::string how, const Find& find) {
    if (on_try_) on_try_(how);
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
  std::string propose(Model model, Assignment assignment) {
    candidates_.push_back(
        {tried_.size() - 1, std::move(model), request_.cut, std::move(assignment)});
    return "";
  }
  std::string propose(Model model, const std::optional<Plan>& plan) {
    if (!plan) return "no such plan is within the memory cap";
    return propose(std::move(model), assignment_of(*plan));
  }

  static Assignment assignment_of(const Plan& plan) {
    return {plan.stages, plan.division, plan.bound.value_or(0), plan.binding, plan.witness.text};
  }

  void try_row(std::string how) {
    attempt(std::move(how), [&]() -> std::string {
      Model model = model_for(model_, request_);
      model.check();
      if (request_.is_capped() || model.has_whole_inputs()) {
        const auto plan = plan_within(model, request_, in_flight_);
        if (plan && request_.cut == Cut::kLayer) layer_bound_ = plan->bound.value_or(0);
        return propose(std::move(model), plan);
      }
      const CutRow& row = cuts()[static_cast<size_t>(request_.cut)];
      auto assignment = row.make({model, request_, in_flight_, {}});
      KERF_CHECK(assignment, "{} found nothing without a cap", row.name);
      if (request_.cut == Cut::kLayer) layer_bound_ = assignment->bound;
      return propose(std::move(model), *std::move(assignment));
    });
  }

  void try_layers_by_step() {
    if (on_try_) on_try_("layer, by step");
    const StepCostOf cost_of = [&](const Assignment& assignment) -> std::optional<StepCost> {
      const auto plan = plan_of(model_, request_, assignment);
      return plan ? cost_of_step(model_, *plan) : std::nullopt;
    };
    std::optional<Assignment> found;
    try {
      found = best_layers_by_step(model_, request_, layer_bound_, cost_of);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;  // else as the layer cut's own
    }
    if (found) attempt("layer, by step", [&] { return propose(model_, *std::move(found)); });
  }

  // Stages for each number, evenly; then groups of any size, each in its own way.
  void try_hybrids() {
    HybridCut hybrid(model_, request_);
    for (int stages = 2; stages <= request_.workers; ++stages)
      attempt(format("hybrid in {} stages", stages), [&]() -> std::string {
        request_.stages = stages;
        Model model = rewritten(model_, hybrid.rewrites(request_));
        if (request_.is_capped()) {
          const auto plan = plan_within(model, request_, in_flight_);
          return propose(std::move(model), plan);
        }
        Assignment assignment = hybrid.make({model, request_, in_flight_, {}});
        return propose(std::move(model), std::move(assignment));
      });
    request_.stages = 0;
    for (const Groups& groups :
         best_groups(hybrid.prices(), request_.workers, request_.micro_batches, kMostGroups))
      attempt(described(groups), [&] {
        Model model = rewritten(model_, rewrites_of_groups(model_, request_, groups));
        Assignment assignment = assigned_to_groups(model, request_, groups, 0);
        return propose(std::move(model), std::move(assignment));
      });
  }

  // With predictions where there is a cap, and then only within it.
  std::optional<Plan> plan_of(const Model& model, const PlanRequest& request,
                              const Assignment& assignment) const {
    if (!request.is_capped()) return connected_plan(model, request, assignment);
    Plan plan = assigned_plan(model, request, in_flight_, assignment);
    for (const WorkerPrediction& worker : plan.workers)
      if (const auto cap = request.cap_of(worker.worker); cap && worker.peak_bytes > *cap)
        return std::nullopt;
    return plan;
  }
  std::optional<StepCost> cost_of_step(const Model& model, const Plan& plan) const {
    const auto seconds = objective_.step_seconds(model, plan, request_.speed);
    if (!seconds) return std::nullopt;
    return StepCost{*seconds, bytes_sent(model, plan)};
  }

  // `enough`: seconds of a step that there is already.
  void weigh(Candidate& candidate, std::optional<double> enough) const {
    PlanRequest request = request_;
    request.cut = candidate.cut;
    try {
      candidate.plan = plan_of(candidate.model, request, candidate.assignment);
      if (!candidate.plan) return;
      if (enough) {
        const double least =
            least_seconds(candidate.model, *candidate.plan, request,
                          objective_.has_gradients(candidate.model, *candidate.plan));
        if (least > *enough) candidate.at_least = least;
      }
      if (!candidate.at_least) candidate.cost = cost_of_step(candidate.model, *candidate.plan);
    } catch (...) {
      candidate.fault = std::current_exception();
    }
  }

  // Those of [begin, end), each by itself, on as many threads as there are processors.
  void weigh_all(size_t begin, size_t end, std::optional<double> enough) {
    std::atomic<size_t> next = begin;
    const auto work = [&](const OnTry& on_try) {
      for (size_t i = next++; i < end; i = next++) {
        if (on_try) on_try(format("step {} of {}", i + 1, candidates_.size()));
        weigh(candidates_[i], enough);
      }
    };
    const size_t most = std::min<size_t>(end - begin, std::thread::hardware_concurrency());
    std::vector<std::jthread> helpers;
    while (helpers.size() + 1 < most) helpers.emplace_back(work, OnTry());
    work(on_try_);
  }

  // Seconds of the best of the first so many; empty if there is none.
  std::optional<double> least_of(size_t count) const {
    std::optional<double> least;
    for (size_t i = 0; i < count; ++i)
      if (const auto& cost = candidates_[i].cost; cost && (!least || cost->seconds < *least))
        least = cost->seconds;
    return least;
  }

  std::optional<Choice> take_best() {
    Candidate* best = nullptr;
    for (Candidate& candidate : candidates_) {
      Tried& tried = tried_[candidate.tried];
      try {
        if (candidate.fault) std::rethrow_exception(candidate.fault);
      } catch (const Error& error) {
        note(error, tried);
        continue;
      }
      if (!candidate.cost) {
        tried.why_not = why_not(candidate);
        continue;
      }
      tried.step_seconds = candidate.cost->seconds;
      tried.bytes = candidate.cost->bytes;
      if (best == nullptr ||
          std::pair(*candidate.cost, candidate.tried) < std::pair(*best->cost, best->tried))
        best = &candidate;
    }
    if (best == nullptr) return std::nullopt;
    if (best->plan->workers.empty()) {  // it was connected only
      best->plan->bound = best->assignment.bound;
      best->plan->witness.text = best->assignment.witness;
    }
    return Choice{std::move(best->model), *std::move(best->plan), {}};
  }

  std::string why_not(const Candidate& candidate) const {
    if (!candidate.plan) return "no such plan is within the memory cap";
    if (!candidate.at_least) return "the schedule cannot run it";
    return format("its step takes {:.3g} s at least", *candidate.at_least);
  }

  // Only the best is predicted, where no cap asked for all.
  void finish(Choice& choice) {
    if (!choice.plan.workers.empty()) return;
    request_.cut = choice.plan.cut;
    choice.plan = assigned_plan(choice.model, request_, in_flight_, assignment_of(choice.plan));
  }

  // Of the cuts that fail for want of memory, the one that fails by least says what would do.
  Infeasible nothing_fits() {
    std::optional<Infeasible> least;
    const auto cap = request_.memory;
    for (const auto& [cut, stages] : candidates()) {
      request_.cut = cut;
      request_.stages = stages;
      try {
        const Model model = model_for(model_, request_);
        if (least) {
          request_.memory = least->cap + least->over - 1;
          if (!plan_within(model, request_, in_flight_)) continue;
        }
        request_.memory = cap;
        auto answer = make_plan(model, request_, in_flight_);
        if (auto* infeasible = std::get_if<Infeasible>(&answer)) least = std::move(*infeasible);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kInternal) throw;
      }
    }
    request_.memory = cap;
    for (const Candidate& candidate : candidates_)
      if (auto other = short_of_memory(candidate); other && (!least || other->over < least->over))
        least = std::move(other);
    if (least) return *least;
    if (first_error_) throw *first_error_;
    throw Error(ErrorCode::kInfeasible, "the schedule can run no plan of any cut; use another one");
  }

  // What a plan that is no row's needs beyond the cap of all workers.
  std::optional<Infeasible> short_of_memory(const Candidate& candidate) const {
    if (candidate.fault || candidate.plan || !request_.memory) return std::nullopt;
    PlanRequest request = request_;
    request.cut = candidate.cut;
    const Plan plan = assigned_plan(candidate.model, request, in_flight_, candidate.assignment);
    const auto fullest =
        std::max_element(plan.workers.begin(), plan.workers.end(),
                         [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; });
    Infeasible result;
    for (size_t s = 0; s < plan.stages.size(); ++s)
      for (const int worker : plan.workers_of(plan.stages[s]))
        if (worker == fullest->worker) result.stage = static_cast<int>(s);
    result.cap = *request_.memory;
    result.over = fullest->peak_bytes - result.cap;
    result.smallest_change = format("--memory {}", fullest->peak_bytes);
    return result;
  }

  // Rows of the table that a request of any cut has, and of a hybrid cut how many stages.
  std::vector<std::pair<Cut, int>> candidates() const {
    std::vector<std::pair<Cut, int>> all{{Cut::kLayer, 0}, {Cut::kFeature, 0}, {Cut::kBatch, 0}};
    for (int stages = 2; stages <= request_.workers; ++stages)
      all.emplace_back(Cut::kHybrid, stages);
    if (has_space_to_divide(model_, request_)) all.emplace_back(Cut::kFree, 0);
    return all;
  }

  const Model& model_;
  PlanRequest request_;
  const InFlight& in_flight_;
  const Objective& objective_;
  const OnTry& on_try_;
  double layer_bound_ = 0;
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
