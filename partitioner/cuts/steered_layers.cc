#include "partitioner/cuts/steered_layers.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/bound.h"
#include "partitioner/connected_plan.h"
#include "partitioner/cuts/line_search.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/cuts/steered_units.h"
#include "partitioner/model_graph.h"
#include "partitioner/orders.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {
namespace {

using WorkerRow = std::vector<int>;  // stage -> worker

constexpr size_t kMostWorkerRows = 120;
constexpr int kMostSearched = 400'000;  // units, of all rows together
constexpr int kMostSqueezes = 16;

struct SteeredStages {
  std::vector<std::vector<int>> stages;  // of nodes, ascending
  WorkerRow row;
  std::vector<double> memory;  // of what the nodes hold, by stage
  double price = 0;            // of the worker that has most
  double bytes = 0;
};

class Steered {
 public:
  explicit Steered(const CutTask& task)
      : task_(task),
        request_(task.request),
        graph_(cost_graph_of(task.model, task.request)),
        units_(units_of(graph_)),
        steered_(steered_units(task.model, task.request, units_)) {
    for (std::vector<int>& order : topological_orders(units_)) add_line(std::move(order));
    if (!request_.steering.places.empty()) add_line(order_by_worker(units_, steered_.worker));
  }

  std::optional<Assignment> best() {
    std::vector<SteeredStages> found;
    for (const WorkerRow& row : rows()) {
      check_stages(row);
      const std::vector<double> none(row.size(), kNever);
      auto division = best_of(row, none);
      if (division && !has_met(*division)) found.push_back(*std::move(division));
    }
    if (found.empty()) refuse_rules();
    std::stable_sort(found.begin(), found.end(),
                     [](const SteeredStages& a, const SteeredStages& b) {
                       return std::pair(a.price, a.bytes) < std::pair(b.price, b.bytes);
                     });
    if (!request_.is_capped()) return assigned(found.front());
    for (const SteeredStages& division : found)
      if (auto squeezed = within_caps(division)) return assigned(*squeezed);
    return std::nullopt;
  }

 private:
  void add_line(std::vector<int> order) { lines_.emplace_back(units_, std::move(order)); }
  int workers() const { return request_.workers_bound(); }

  // ---- which worker each stage is on

  std::vector<WorkerRow> rows() const {
    if (!request_.placement.empty()) return {request_.placement};
    if (!request_.steering.places.empty()) return rows_of_places();
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
  std::vector<WorkerRow> orders_of_workers() const {
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
    return all.size() <= most_rows() ? all : orders;
  }
  std::pair<double, int64_t> device(int worker) const {
    return {request_.speed.capacities.speed_of(worker),
            request_.cap_of(worker).value_or(std::numeric_limits<int64_t>::max())};
  }

  // As placed operators follow one another, each worker that has none anywhere between.
  std::vector<WorkerRow> rows_of_places() const {
    std::vector<WorkerRow> rows{runs_of(lines_.back().order(), steered_.worker)};
    for (int worker = 0; worker < workers(); ++worker) {
      if (std::find(rows[0].begin(), rows[0].end(), worker) != rows[0].end()) continue;
      std::vector<WorkerRow> longer;
      for (const WorkerRow& row : rows)
        for (size_t place = 0; place <= row.size(); ++place) {
          WorkerRow with = row;
          with.insert(with.begin() + static_cast<std::ptrdiff_t>(place), worker);
          if (longer.size() < most_rows()) longer.push_back(std::move(with));
        }
      rows = std::move(longer);
    }
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

  // ---- the best boundaries

  StageLimits limits_of(const WorkerRow& row, const Line& line,
                        const std::vector<double>& memory) const {
    StageLimits limits;
    const auto stages = static_cast<int>(row.size());
    for (int s = 0; s < stages; ++s) {
      limits.device_type.push_back(request_.speed.capacities.speed_number_of(row[at(s)]));
      limits.micro_batches.push_back(
          task_.in_flight.kept(s, stages - 1 - s, request_.micro_batches));
      std::vector<int>& ends =
          limits.ends.emplace_back(ends_on_worker(line.order(), steered_.worker, row[at(s)]));
      for (const std::vector<int>& group : steered_.group) {
        const std::vector<int> apart = ends_apart(line.order(), group);
        for (size_t i = 0; i < ends.size(); ++i) ends[i] = std::min(ends[i], apart[i]);
      }
    }
    limits.memory = memory;
    return limits;
  }

  std::optional<SteeredStages> best_of(const WorkerRow& row,
                                       const std::vector<double>& memory) const {
    std::vector<StageLimits> limits;
    for (const Line& line : lines_) limits.push_back(limits_of(row, line, memory));
    std::vector<LineSearch> searches;
    for (size_t l = 0; l < lines_.size(); ++l) searches.emplace_back(lines_[l], limits[l]);
    double bottleneck = kNever;
    for (const LineSearch& search : searches)
      bottleneck = std::min(bottleneck, search.least_bottleneck(0, bottleneck));
    if (bottleneck == kNever) return std::nullopt;
    const double price = bottleneck * (1 + request_.slack);
    for (const bool keep_close : {true, false}) {
      Segmentation best;
      size_t line = 0;
      for (size_t l = 0; l < searches.size(); ++l) {
        Segmentation segments = searches[l].fewest_bytes(price, keep_close);
        if (segments.value >= best.value) continue;
        best = std::move(segments);
        line = l;
      }
      if (best.found()) return division_of(row, lines_[line], limits[line], best);
    }
    throw Error(ErrorCode::kInternal, "a bottleneck was found, but no division that has it");
  }

  SteeredStages division_of(const WorkerRow& row, const Line& line, const StageLimits& limits,
                            const Segmentation& segments) const {
    SteeredStages result;
    result.row = row;
    result.bytes = segments.value;
    std::vector<double> price(at(workers()));
    int begin = 0;
    for (size_t s = 0; s < row.size(); ++s) {
      const int end = segments.ends[s];
      std::vector<int>& nodes = result.stages.emplace_back();
      for (int p = begin; p < end; ++p) {
        const std::vector<int>& members = units_.members[at(line.order()[at(p)])];
        nodes.insert(nodes.end(), members.begin(), members.end());
      }
      std::sort(nodes.begin(), nodes.end());
      price[at(row[s])] += line.price(limits.device_type[s], begin, end);
      result.memory.push_back(line.memory(limits.micro_batches[s], begin, end));
      begin = end;
    }
    result.price = *std::max_element(price.begin(), price.end());
    // A line knows links that are all alike, and pays for each stage what a worker pays once.
    if (!request_.speed.capacities.links.empty() || std::ssize(row) > workers())
      result.price = bottleneck_of(
          task_.model, connected_plan(task_.model, request_, assigned(result)), request_);
    return result;
  }

  // Whether operators that are to be apart are on one worker, in two of its stages.
  bool has_met(const SteeredStages& division) const {
    for (const std::vector<int>& group : steered_.group) {
      std::vector<int> group_of(at(workers()), -1);  // by worker
      for (size_t s = 0; s < division.stages.size(); ++s)
        for (const int node : division.stages[s]) {
          const int own = group[at(units_.unit_of[at(node)])];
          int& had = group_of[at(division.row[s])];
          if (own >= 0 && had >= 0 && own != had) return true;
          if (own >= 0) had = own;
        }
    }
    return false;
  }

  [[noreturn]] void refuse_rules() const {
    std::vector<std::string> flags;
    if (!request_.steering.places.empty()) flags.emplace_back("--place");
    if (!request_.steering.together.empty()) flags.emplace_back("--together");
    if (!request_.steering.apart.empty()) flags.emplace_back("--apart");
    if (request_.steering.stages_per_worker > 1) flags.emplace_back("--stages-per-worker");
    throw Error(ErrorCode::kInfeasible,
                format("no division of {} into stages of {} meets what {} ask; leave something out",
                       task_.model.name(), plural(workers(), "worker"), fmt::join(flags, " and ")));
  }

  // ---- memory

  // What stages need beyond what their nodes hold shows only on the division.
  std::optional<SteeredStages> within_caps(const SteeredStages& first) const {
    std::vector<double> memory(first.row.size(), kNever);
    std::optional<SteeredStages> division = first;
    for (int squeeze = 0; squeeze < kMostSqueezes && division; ++squeeze) {
      const std::vector<int64_t> peaks = task_.peaks(assigned(*division));
      bool fits = !has_met(*division);
      for (size_t s = 0; s < peaks.size(); ++s) {
        const auto cap = request_.cap_of(division->row[s]);
        if (!cap) continue;
        const auto over = static_cast<double>(peaks[s] - *cap);
        fits = fits && over <= 0;
        if (squeeze == 0 || over > 0)
          memory[s] = std::min(memory[s], division->memory[s] - over / stages_on(*division, s));
      }
      if (fits) return division;
      division = best_of(first.row, memory);
    }
    return std::nullopt;
  }

  // How many stages its worker has.
  static double stages_on(const SteeredStages& division, size_t stage) {
    return static_cast<double>(
        std::count(division.row.begin(), division.row.end(), division.row[stage]));
  }

  Assignment assigned(const SteeredStages& division) const {
    Assignment result;
    result.division.largest = request_.largest_micro_batch();
    result.division.nodes.resize(at(task_.model.nodes()));
    for (size_t s = 0; s < division.stages.size(); ++s) {
      const int part = static_cast<int>(s);
      result.stages.push_back({division.stages[s], {part}});
      for (const NodeId node : division.stages[s])
        result.division.nodes[at(node)] = whole_division(task_.model, node, part);
    }
    result.binding = division.row;
    const Bound least = bound_of_loads(task_.model, request_, graph_, units_);
    result.bound = least.value;
    result.witness = least.witness;
    return result;
  }

  const CutTask& task_;
  const PlanRequest& request_;
  const CostGraph graph_;
  const Units units_;
  const SteeredUnits steered_;
  std::vector<Line> lines_;  // the last one by worker, where operators are placed
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

std::optional<Assignment> cut_steered_layers(const CutTask& task) { return Steered(task).best(); }

}  // namespace kerf::partitioner
