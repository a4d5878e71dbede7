#include "partitioner/graph_plan.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/checked_bound.h"
#include "partitioner/coarse_units.h"
#include "partitioner/cuts/layer_search.h"
#include "partitioner/cuts/replicated_stages.h"
#include "partitioner/cuts/shared_devices.h"

namespace kerf::partitioner {
namespace {

constexpr int kMostStagesPerWorker = 64;
constexpr int64_t kMovesOfStages = 200'000;

StageLimits limits_of(const GraphRequest& request, int nodes) {
  StageLimits limits;
  limits.device_type.assign(at(request.workers), 0);
  // No more hosts than there are nodes for them.
  limits.device_type.insert(limits.device_type.end(), at(std::min(request.hosts, nodes)), 1);
  limits.micro_batches.assign(limits.device_type.size(), kBatchesInFlight);
  if (request.hosts > 0) limits.host_type = 1;
  return limits;
}

int largest_stage(const LayerDivision& division, int host_type) {
  int largest = 0;
  double most = -1;
  for (size_t s = 0; s < division.memory.size(); ++s)
    if (division.device_types[s] != host_type && division.memory[s] > most) {
      most = division.memory[s];
      largest = static_cast<int>(s);
    }
  return largest;
}

Infeasible infeasible(const CostGraph& graph, LayerSearch& search, int64_t cap, int host_type) {
  double all = 0;
  for (const Held& held : graph.held()) all += held.fixed + kBatchesInFlight * held.per_micro_batch;
  auto [enough, least] = search.least_cap(cap, static_cast<int64_t>(std::ceil(all)));
  if (!least) least = search.best_within(enough);
  if (!least) {  // a search of long lines does not try every boundary
    least = search.best();
    if (least)
      enough = static_cast<int64_t>(std::ceil(least->memory[at(largest_stage(*least, host_type))]));
  }
  KERF_CHECK(least.has_value(), "no division, whatever it takes");
  return {largest_stage(*least, host_type), cap, enough - cap, format("--memory {}", enough)};
}

void check(const CostGraph& graph, const GraphRequest& request) {
  const auto fail = [](std::string why) { throw Error(ErrorCode::kUsage, std::move(why)); };
  if (request.workers < 1) fail(format("--workers {}: needs at least 1", request.workers));
  if (request.workers > kMostWorkers)
    fail(format("{}, but there are {} at most", plural(request.workers, "worker"), kMostWorkers));
  check_slack(request.slack);
  if (request.memory && *request.memory < 1)
    fail(format("--memory {}: needs at least 1 byte", *request.memory));
  if (request.hosts < 0 || (request.hosts > 0 && graph.device_types() < 2))
    fail(
        format("--hosts {}: {} says nothing of what nodes take on devices of a second kind; leave "
               "the flag out",
               request.hosts, graph.name()));
  if (request.stages_per_worker < 1 || request.stages_per_worker > kMostStagesPerWorker)
    fail(format("--stages-per-worker {}: is not within 1 and {}", request.stages_per_worker,
                kMostStagesPerWorker));
  if (request.stages_per_worker > 1 && (request.hosts > 0 || request.slack > 0))
    fail("--stages-per-worker is for workers of one kind: leave out --hosts and --slack");
  if (!request.replicates) return;
  if (request.hosts > 0 || request.slack > 0 || request.stages_per_worker > 1)
    fail("--cut hybrid is for workers of one kind, without --slack and --stages-per-worker");
  if (request.workers > kMostReplicatedOver)
    fail(format("--workers {}: --cut hybrid of a graph takes {} at most", request.workers,
                kMostReplicatedOver));
}

GraphPlan priced(const CostGraph& graph, const LayerDivision& division) {
  return price_division(graph, {division.stages, {}, division.device_types});
}

// Several stages on each worker, from a plan with one, whose stages are of these units.
GraphPlan shared_plan(const CostGraph& graph, const GraphRequest& request, Units units,
                      const GraphPlan& one) {
  std::vector<int> start(at(units.size()));
  for (int node = 0; node < graph.size(); ++node)
    start[at(units.unit_of[at(node)])] = one.stage_of[at(node)];
  if (units.size() > kMostFineUnits) {
    const int stages = request.workers * request.stages_per_worker;
    units = join_neighbours(units, kCoarseShare / stages).units;
    start.clear();
  }
  const SharedDevices shared = share_devices(
      units,
      {request.workers,
       request.stages_per_worker,
       std::vector<double>(at(request.workers),
                           request.memory ? static_cast<double>(*request.memory) : kNever),
       kMovesOfStages,
       {}},
      start);
  // Stages that were left empty are none.
  std::vector<std::vector<int>> nodes(shared.device_of.size());
  for (int node = 0; node < graph.size(); ++node)
    nodes[at(shared.stage_of[at(units.unit_of[at(node)])])].push_back(node);
  GraphDivision division;
  for (size_t s = 0; s < nodes.size(); ++s)
    if (!nodes[s].empty()) {
      division.stages.push_back(std::move(nodes[s]));
      division.worker_of.push_back(shared.device_of[s]);
    }
  return price_division(graph, division);
}

// A search for each way in which the backward half may run.
class EveryWay {
 public:
  EveryWay(const CostGraph& graph, const GraphRequest& request, double slack)
      : graph_(graph), request_(request), slack_(slack), limits_(limits_of(request, graph.size())) {
    for (Units& units : ways_of(graph))
      searches_.emplace_back(graph, std::move(units), limits_, slack, request.effort);
  }

  void require_units() const {
    if (has_division(searches_.front())) return;
    throw Error(ErrorCode::kInfeasible,
                format("a layer cut gives every worker at least one operator: {} workers, but {} "
                       "has {} groups of nodes that can be parted; use --workers {} or fewer",
                       request_.workers, graph_.name(), searches_.front().units(),
                       searches_.front().units()));
  }

  // Of the divisions within the slack of the least bottleneck of all that of the fewest bytes.
  std::optional<LayerDivision> best() {
    double least = kNever;
    std::vector<std::pair<LayerDivision, int>> found;  // and its way
    for (size_t way = 0; way < searches_.size(); ++way) {
      LayerSearch& search = searches_[way];
      if (!has_division(search)) continue;
      auto division = request_.memory ? search.best_within(*request_.memory) : search.best();
      if (!division) continue;
      least = std::min(least, search.least_bottleneck());
      found.emplace_back(*std::move(division), static_cast<int>(way));
    }
    std::erase_if(found, [&](const auto& each) {
      return each.first.bottleneck > least * (1 + slack_) * (1 + kRounding);
    });
    if (found.empty()) return std::nullopt;
    auto& [best, way] = *std::min_element(
        found.begin(), found.end(),
        [](const auto& a, const auto& b) { return a.first.bytes < b.first.bytes; });
    best_way_ = way;
    return std::move(best);
  }

  std::vector<LayerDivision> front() {
    std::vector<LayerDivision> all;
    for (LayerSearch& search : searches_) {
      if (!has_division(search)) continue;
      auto points = search.front(request_.memory);
      all.insert(all.end(), std::make_move_iterator(points.begin()),
                 std::make_move_iterator(points.end()));
    }
    return none_better(all);
  }

  // Of every division; the witness tells what is proved beyond that of those whose backward half
  // runs in one of the ways.
  Bound bound() const {
    Bound all{0, "there is no work"};  // unless a search knows of some
    Bound of_ways{kNever, {}};
    for (const LayerSearch& search : searches_) {
      if (search.bound().value > all.value) all = search.bound();
      if (has_division(search) && search.bound_of_way().value < of_ways.value)
        of_ways = search.bound_of_way();
    }
    if (of_ways.value > all.value * (1 + kRounding) && of_ways.value < kNever)
      all.witness += format(
          "; where the backward half runs as the forward half, or against it, none is below {:.6g}",
          of_ways.value);
    return all;
  }
  // Units that the best division of all is made of.
  Units units() const { return std::move(ways_of(graph_)[at(best_way_)]); }
  Bound simple_bound() const { return searches_.front().simple_bound(); }

  Infeasible infeasible() {
    Infeasible least =
        partitioner::infeasible(graph_, searches_.front(), *request_.memory, limits_.host_type);
    for (size_t way = 1; way < searches_.size(); ++way) {
      if (!has_division(searches_[way])) continue;
      Infeasible other =
          partitioner::infeasible(graph_, searches_[way], *request_.memory, limits_.host_type);
      if (other.over < least.over) least = std::move(other);
    }
    return least;
  }

 private:
  static constexpr double kRounding = 1e-9;

  bool has_division(const LayerSearch& search) const { return search.units() >= request_.workers; }

  const CostGraph& graph_;
  const GraphRequest& request_;
  double slack_;
  StageLimits limits_;
  int best_way_ = 0;
  std::deque<LayerSearch> searches_;
};

GraphPlan with_bound(GraphPlan plan, const CostGraph& graph, const Bound& bound) {
  plan.bound = checked_bound(bound, plan.bottleneck, graph.name());
  return plan;
}

}  // namespace

namespace {

// The layer cut where no stage is better replicated. With fewer nodes than workers some has to be.
std::variant<GraphPlan, Infeasible> plan_replicated(const CostGraph& graph,
                                                    const GraphRequest& request) {
  Units units = units_of(graph);
  GraphRequest layer = request;
  layer.replicates = false;
  layer.workers = std::min(request.workers, units.size());
  std::variant<GraphPlan, Infeasible> answer = plan_graph(graph, layer);
  if (units.size() > kMostFineUnits)
    units = join_neighbours(units, kCoarseShare / request.workers).units;
  const double memory = request.memory ? static_cast<double>(*request.memory) : kNever;
  const auto stages = replicate_stages(graph, units, request.workers, memory);
  auto* const cut = std::get_if<GraphPlan>(&answer);
  const bool is_layer_cut = cut != nullptr && layer.workers == request.workers;
  if (!stages && !is_layer_cut) return answer;
  std::optional<GraphPlan> best;
  if (is_layer_cut) best = std::move(*cut);
  if (stages) {
    GraphPlan plan = price_replicated(graph, *stages);
    if (!best || plan.bottleneck < best->bottleneck) best = std::move(plan);
  }
  double work = 0;
  for (int node = 0; node < graph.size(); ++node) work += graph.work(0, node).total();
  return with_bound(
      *std::move(best), graph,
      {work / request.workers, format("all work over {}", plural(request.workers, "worker"))});
}

}  // namespace

std::variant<GraphPlan, Infeasible> plan_graph(const CostGraph& graph,
                                               const GraphRequest& request) {
  check(graph, request);
  if (request.replicates) return plan_replicated(graph, request);
  EveryWay search(graph, request, request.slack);
  search.require_units();
  const auto division = search.best();
  if (!division) {
    KERF_CHECK(request.memory.has_value(), "no division, and no cap that forbids one");
    return search.infeasible();
  }
  GraphPlan plan = priced(graph, *division);
  if (request.stages_per_worker == 1) return with_bound(std::move(plan), graph, search.bound());
  // What a search proves is of one stage a worker.
  GraphPlan shared = shared_plan(graph, request, search.units(), plan);
  const bool is_better = shared.bottleneck < plan.bottleneck;
  return with_bound(is_better ? std::move(shared) : std::move(plan), graph, search.simple_bound());
}

std::vector<GraphPlan> front_of(const CostGraph& graph, const GraphRequest& request) {
  check(graph, request);
  if (request.replicates)
    throw Error(ErrorCode::kUsage, "--front is of layer cuts: leave out --cut hybrid");
  if (request.stages_per_worker > 1)
    throw Error(ErrorCode::kUsage,
                "--front is of one stage a worker: leave out --stages-per-worker");
  EveryWay search(graph, request, 0);
  search.require_units();
  std::vector<GraphPlan> plans;
  for (const LayerDivision& division : search.front())
    plans.push_back(with_bound(priced(graph, division), graph, search.bound()));
  return plans;
}

GraphPlan given_plan(const CostGraph& graph, const GivenStages& given, const SearchEffort& effort) {
  GraphDivision division;
  division.stages.resize(at(given.stages));
  for (int node = 0; node < graph.size(); ++node)
    division.stages[at(given.stage_of[at(node)])].push_back(node);
  const GraphPlan plan = price_division(graph, division);
  GraphRequest request;
  request.workers = given.stages;
  check(graph, request);
  request.effort = effort;
  EveryWay search(graph, request, 0);
  search.best();  // for its bound
  return with_bound(plan, graph, search.bound());
}

}  // namespace kerf::partitioner
