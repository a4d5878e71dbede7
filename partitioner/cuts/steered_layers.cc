#include "partitioner/cuts/steered_layers.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/bound.h"
#include "partitioner/connected_plan.h"
#include "partitioner/cuts/capped_layers.h"
#include "partitioner/cuts/layer_search.h"
#include "partitioner/cuts/refused_rules.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/cuts/steered_units.h"
#include "partitioner/cuts/worker_rows.h"
#include "partitioner/model_graph.h"
#include "partitioner/stage_graph.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {
namespace {

constexpr size_t kMostWorkerRows = 120;
constexpr int kMostSearched = 400'000;  // units, of all rows together
constexpr size_t kRowsInCases = 4;      // times as many, where operators would meet

// Rows that are searched together: of as many stages, and under the same rules.
struct RuledRows {
  UnitRules rules;
  std::vector<int> order;  // by worker, where units have theirs
  std::vector<WorkerRow> rows;
  std::optional<LayerSearch> search = {};
};

// Which rows: those that are tried first, or, where none has a division, whatever others there are.
enum class Reach : uint8_t { kUsual, kWide };

struct SteeredStages {
  LayerDivision division;
  WorkerRow row;
  RuledRows* among = nullptr;
  double price = 0;  // of the worker that has most
};

class Steered {
 public:
  explicit Steered(const CutTask& task)
      : task_(task),
        request_(task.request),
        graph_(cost_graph_of(task.model, task.request)),
        units_(units_of(graph_)),
        rules_(steered_units(task.model, task.request, units_)) {}

  std::optional<Assignment> best() {
    RuledRows& asked = ruled_.emplace_back(RuledRows{rules_, order_of(rules_), {}});
    asked.rows = usual_rows(asked);
    for (const WorkerRow& row : asked.rows) check_stages(row);
    check_workers();
    const size_t rows = asked.rows.size();
    const Bound least = look_at(asked, rows);
    // What fits into the caps may have to be another division than the best, one that meets.
    const bool squeezes = request_.is_capped() && is_of_several();
    if (!rules_.group.empty() && (!met_.empty() || squeezes)) look_at_cases(Reach::kUsual);
    if (found_.empty()) look_at_cases(Reach::kWide);
    if (found_.empty()) throw RulesUnmet();
    find_bound(least, rows);
    std::stable_sort(
        found_.begin(), found_.end(), [](const SteeredStages& a, const SteeredStages& b) {
          return std::pair(a.price, a.division.bytes) < std::pair(b.price, b.division.bytes);
        });
    if (request_.is_capped()) return squeezed();
    return assigned(found_.front().division, found_.front().row);
  }

 private:
  int workers() const { return request_.workers_bound(); }

  // ---- which worker each stage is on

  std::vector<int> order_of(const UnitRules& rules) const {
    const bool any =
        std::any_of(rules.worker.begin(), rules.worker.end(), [](int own) { return own >= 0; });
    return any ? order_by_worker(units_, rules.worker) : std::vector<int>{};
  }

  std::vector<WorkerRow> usual_rows(const RuledRows& under) {
    if (!request_.placement.empty()) return {request_.placement};
    if (!request_.steering.places.empty()) return rows_of_places(under, Reach::kUsual);
    std::vector<WorkerRow> rows;
    for (const WorkerRow& order : orders_of_workers()) {
      WorkerRow& row = rows.emplace_back();
      for (int turn = 0; turn < request_.steering.stages_per_worker; ++turn)
        row.insert(row.end(), order.begin(), order.end());
    }
    return rows;
  }

  size_t most_rows() const {
    return std::clamp<size_t>(at(kMostSearched / units_.size()), 1, kMostWorkerRows);
  }

  // Those of workers that differ; where they are many, ascending and descending by speed.
  std::vector<WorkerRow> orders_of_workers() {
    WorkerRow by_number(at(workers()));
    std::iota(by_number.begin(), by_number.end(), 0);
    const bool same_links = request_.speed.capacities.links.empty();
    const auto before = [&](int a, int b) {
      return device(a) != device(b) ? device(a) < device(b) : !same_links && a < b;
    };
    WorkerRow order = by_number;
    std::stable_sort(order.begin(), order.end(), before);
    WorkerRow descending(order.rbegin(), order.rend());
    std::vector<WorkerRow> orders{by_number, order, descending};
    if (device(order.front()) == device(order.back()) && same_links) return {by_number};
    std::vector<WorkerRow> all;
    // Workers that are alike keep their order, so that each order of what differs comes once.
    do all.push_back(order);
    while (all.size() <= most_rows() && std::next_permutation(order.begin(), order.end(), before));
    if (all.size() <= most_rows()) return all;
    every_order_ = false;
    return orders;
  }
  std::pair<double, int64_t> device(int worker) const {
    return {request_.speed.capacities.speed_of(worker),
            request_.cap_of(worker).value_or(std::numeric_limits<int64_t>::max())};
  }

  // As placed operators follow one another.
  std::vector<WorkerRow> rows_of_places(const RuledRows& under, Reach reach) const {
    return rows_with_the_others(runs_of(under.order, under.rules.worker), workers(), most_rows(),
                                reach == Reach::kWide);
  }

  std::vector<WorkerRow> rows_of_case(const RuledRows& under, Reach reach) {
    std::vector<WorkerRow> rows;
    if (!request_.steering.places.empty())
      rows = rows_of_places(under, reach);
    else if (reach == Reach::kUsual)
      rows = request_.is_capped() ? usual_rows(under) : met_;  // others have their best division
    else if (request_.placement.empty() && request_.steering.stages_per_worker > 1)
      rows = rows_in_any_order(workers(), request_.steering.stages_per_worker, most_rows());
    std::erase_if(rows, [&](const WorkerRow& row) {
      return std::ssize(row) > std::min(kMostParts, units_.size());
    });
    return rows;
  }

  void check_stages(const WorkerRow& row) const {
    if (std::ssize(row) > kMostParts)
      throw Error(ErrorCode::kInfeasible,
                  format("what is asked takes {} stages, and a plan has {} parts at most; place "
                         "operators that follow one another on one worker",
                         row.size(), kMostParts));
    if (std::ssize(row) <= units_.size()) return;
    throw Error(ErrorCode::kInfeasible,
                format("{} stages need as many operators that can be apart, but {} has {}; use "
                       "fewer --workers, --stages-per-worker or --together",
                       row.size(), task_.model.name(), units_.size()));
  }

  // A worker that nothing is placed on needs an operator that has no place.
  void check_workers() const {
    if (request_.steering.places.empty() || !request_.placement.empty()) return;
    std::vector<int> without;
    for (int worker = 0; worker < workers(); ++worker)
      if (std::ranges::find(rules_.worker, worker) == rules_.worker.end())
        without.push_back(worker);
    const auto left = std::ranges::count(rules_.worker, -1);
    if (left >= std::ssize(without)) return;
    without.erase(without.begin(), without.begin() + left);
    throw Error(ErrorCode::kInfeasible,
                format("no operator of {} is left for worker {}, as so much is placed on others; "
                       "place one there, place less, or use fewer --workers",
                       task_.model.name(), fmt::join(without, " and ")),
                "--place");
  }

  // ---- the best boundaries

  Bound look_at(RuledRows& under, size_t searches) {
    under.search.emplace(graph_, units_, limits_of(under, under.rows.front()), request_.slack,
                         effort_of(searches));
    if (!under.order.empty()) under.search->add_line(under.order);
    Bound least{kNever, {}};
    for (const WorkerRow& row : under.rows) {
      auto division = under.search->best_of(limits_of(under, row));
      if (under.search->bound().value < least.value) least = under.search->bound();
      if (!division) continue;
      if (has_met(*division, row))
        met_.push_back(row);
      else
        found_.push_back(priced(*std::move(division), row, under));
    }
    return least;
  }

  // A search knows what may meet in a stage, not what does in two of a worker. So it looks at each
  // way that workers may have what is to be apart.
  void look_at_cases(Reach reach) {
    std::vector<UnitRules> cases = cases_of_apart(rules_, workers(), most_rows());
    const size_t most =
        std::max<size_t>(1, kRowsInCases * most_rows() / std::max<size_t>(1, cases.size()));
    std::vector<RuledRows> all;
    size_t searches = 0;
    for (UnitRules& rules : cases) {
      RuledRows under{std::move(rules), {}, {}};
      under.order = order_of(under.rules);
      std::vector<WorkerRow> rows = rows_of_case(under, reach);
      rows.resize(std::min(rows.size(), most));
      searches += rows.size();
      std::map<size_t, std::vector<WorkerRow>> by_stages;
      for (WorkerRow& row : rows) by_stages[row.size()].push_back(std::move(row));
      for (auto& [stages, of_as_many] : by_stages)
        all.push_back({under.rules, under.order, std::move(of_as_many)});
    }
    for (RuledRows& each : all) look_at(ruled_.emplace_back(std::move(each)), searches);
  }

  // All rows together take as long as one search.
  SearchEffort effort_of(size_t rows) const {
    SearchEffort effort = request_.effort;
    effort.ideals = std::max<size_t>(1, effort.ideals / rows);
    effort.visits /= static_cast<int64_t>(rows);
    return effort;
  }

  StageLimits limits_of(const RuledRows& under, const WorkerRow& row) const {
    StageLimits limits;
    limits.worker = row;
    limits.memory.assign(row.size(), kNever);
    if (!request_.steering.places.empty() || !rules_.group.empty()) limits.rules = &under.rules;
    std::vector<std::vector<int>> groups;
    for (const int worker : row) {
      limits.device_type.push_back(request_.speed.capacities.speed_number_of(worker));
      groups.push_back({worker});
    }
    for (const Flight& flight :
         task_.in_flight.of(chain_of(std::move(groups)), request_.micro_batches))
      limits.micro_batches.push_back(flight.kept_for_weights);
    return limits;
  }

  SteeredStages priced(LayerDivision division, const WorkerRow& row, RuledRows& among) const {
    SteeredStages result{std::move(division), row, &among};
    std::vector<double> price(at(workers()));
    for (size_t s = 0; s < row.size(); ++s) price[at(row[s])] += result.division.prices[s];
    result.price = *std::max_element(price.begin(), price.end());
    // A search knows links that are all alike, and pays for each stage what a worker pays once.
    if (!is_of_stages(row))
      result.price = bottleneck_of(
          task_.model, connected_plan(task_.model, request_, assigned(result.division, row)),
          request_);
    return result;
  }
  // Whether a worker's price is that of its stage.
  bool is_of_stages(const WorkerRow& row) const {
    return request_.speed.capacities.links.empty() && std::ssize(row) <= workers();
  }

  // Whether a worker may have two stages.
  bool is_of_several() const {
    return !request_.placement.empty() || !request_.steering.places.empty() ||
           request_.steering.stages_per_worker > 1;
  }

  // Whether operators that are to be apart are on one worker, in two of its stages.
  bool has_met(const LayerDivision& division, const WorkerRow& row) const {
    std::vector<StageRules> kept(at(workers()));
    for (size_t s = 0; s < row.size(); ++s)
      for (const int node : division.stages[s])
        if (!rules_.add(units_.unit_of[at(node)], kept[at(row[s])])) return true;
    return false;
  }

  // What a search of every row proves, and what holds of any.
  void find_bound(const Bound& of_rows, size_t rows) {
    bound_ = bound_of_loads(task_.model, request_, graph_, units_);
    if (Bound placed = bound_of_places(); placed.value > bound_.value) bound_ = std::move(placed);
    const bool of_all = every_order_ && request_.steering.places.empty() &&
                        request_.speed.capacities.links.empty() &&
                        request_.steering.stages_per_worker == 1 && request_.placement.empty();
    if (!of_all || of_rows.value == kNever || of_rows.value <= bound_.value) return;
    bound_ = of_rows;
    if (rows > 1) bound_.witness += ", in whatever order the workers stand";
  }

  // What was placed on a worker is on no other.
  Bound bound_of_places() const {
    Bound most;
    for (int worker = 0; worker < workers(); ++worker) {
      const int type = request_.speed.capacities.speed_number_of(worker);
      double work = 0;
      for (int unit = 0; unit < units_.size(); ++unit)
        if (rules_.worker[at(unit)] == worker) work += units_.work[at(type)][at(unit)];
      if (work > most.value) most = {work, format("what is placed on worker {}", worker)};
    }
    return most;
  }

  // ---- memory

  std::optional<Assignment> squeezed() const {
    for (const SteeredStages& each : found_) {
      CappedLayers capped(*each.among->search,
                          [&](const LayerDivision& division) { return over(division, each.row); });
      if (auto fits = capped.best(limits_of(*each.among, each.row)))
        return assigned(*fits, each.row);
    }
    return std::nullopt;
  }

  // What each stage takes beyond its share of what its worker has; of what may not be, beyond all.
  std::vector<double> over(const LayerDivision& division, const WorkerRow& row) const {
    if (has_met(division, row)) return std::vector<double>(row.size(), kNever);
    std::vector<double> result;
    const std::vector<int64_t> peaks = task_.peaks(assigned(division, row), std::nullopt);
    for (size_t s = 0; s < row.size(); ++s) {
      const auto cap = request_.cap_of(row[s]);
      const auto stages = static_cast<double>(std::count(row.begin(), row.end(), row[s]));
      result.push_back(cap ? static_cast<double>(peaks[s] - *cap) / stages : -kNever);
    }
    return result;
  }

  Assignment assigned(const LayerDivision& division, const WorkerRow& row) const {
    Assignment result;
    result.division.largest = request_.largest_micro_batch();
    result.division.nodes.resize(at(task_.model.nodes()));
    for (size_t s = 0; s < division.stages.size(); ++s) {
      const int part = static_cast<int>(s);
      result.stages.push_back({division.stages[s], {part}});
      for (const NodeId node : division.stages[s])
        result.division.nodes[at(node)] = whole_division(task_.model, node, part);
    }
    result.binding = row;
    result.bound = bound_.value;
    result.witness = bound_.witness;
    return result;
  }

  const CutTask& task_;
  const PlanRequest& request_;
  const CostGraph graph_;
  const Units units_;
  const UnitRules rules_;
  std::deque<RuledRows> ruled_;  // as asked, and in cases of that
  std::vector<SteeredStages> found_;
  std::vector<WorkerRow> met_;  // whose best division has on a worker what is to be apart
  bool every_order_ = true;     // of the workers that differ was looked at
  Bound bound_;
};

}  // namespace

Bound bound_of_loads(const Model& model, const PlanRequest& request, const CostGraph& graph,
                     const Units& units) {
  Bound most{even_share(model, request),
             format("all work over {}", plural(request.workers_bound(), "worker"))};
  for (int unit = 0; unit < units.size(); ++unit) {
    double least = kNever;
    for (const std::vector<double>& work : units.work) least = std::min(least, work[at(unit)]);
    if (least > most.value)
      most = {least, format("{} alone", graph.node(units.members[at(unit)].front()).name)};
  }
  return most;
}

bool steers_layers(const PlanRequest& request) {
  const Steering& steering = request.steering;
  return !request.speed.capacities.empty() || !steering.places.empty() ||
         !steering.together.empty() || !steering.apart.empty() || steering.stages_per_worker > 1;
}

std::optional<Assignment> cut_steered_layers(const CutTask& task) {
  try {
    return Steered(task).best();
  } catch (const RulesUnmet&) {
    refuse_rules(task, [](const CutTask& other) { return Steered(other).best().has_value(); });
  }
}

}  // namespace kerf::partitioner
