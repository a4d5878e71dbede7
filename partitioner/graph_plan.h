// Cuts of a cost graph that is no model: planned and priced, not run. Layer cuts, and hybrid ones
// that replicate stages (cuts/replicated_stages.h). Pure functions.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "partitioner/bound.h"
#include "partitioner/cost_graph.h"
#include "partitioner/cut.h"
#include "partitioner/given_stages.h"
#include "partitioner/search_effort.h"

namespace kerf::partitioner {

// A file's graph says what one batch takes, and nothing of schedules.
inline constexpr int kBatchesInFlight = 1;

struct GraphRequest {
  int workers = 1;
  std::optional<int64_t> memory;  // bytes per worker
  // Devices of the graph's type 1 (hosts) beside the workers: used where they lower the bottleneck,
  // under no cap.
  int hosts = 0;
  double slack = 0;  // bytes are saved up to (1 + slack) times the least bottleneck
  SearchEffort effort = {};
  int stages_per_worker = 1;  // more than that: without hosts and slack
  // Hybrid: a stage may be on several workers. Without hosts, slack and several stages a worker.
  bool replicates = false;
};

struct GraphDivision {
  std::vector<std::vector<int>> stages = {};  // nodes of each
  std::vector<int> worker_of = {};            // by stage; empty: each has its own
  std::vector<int> device_types = {};         // by worker; empty: all are of type 0
};

struct GraphWorker {
  std::vector<int> nodes;  // ascending
  std::vector<int> stages;
  int device_type = 0;
  double work = 0;      // in the graph's unit
  double wire = 0;      // of what enters and leaves
  double bytes_in = 0;  // of what enters: values, and gradients that it returns
  double memory = 0;

  double load() const { return work + wire; }
};

struct GraphPlan {
  std::vector<GraphWorker> workers;
  std::vector<int> stage_of;  // by node
  double bottleneck = 0;
  Bound bound;
  double cut_bytes = 0;
  bool acyclic = false;

  double memory() const;  // of the fullest worker that has a cap
};

// Prices and checks any division: looks at the graph and the stages alone.
GraphPlan price_division(const CostGraph& graph, const GraphDivision& division);

// Throws Error{kUsage} for no workers, Error{kInfeasible} for more workers than there are groups of
// nodes that can be parted.
std::variant<GraphPlan, Infeasible> plan_graph(const CostGraph& graph, const GraphRequest& request);

// Sound stages as they were given, each on a worker of its own, with the bound of what a search
// finds. Throws Error{kUsage} for more stages than a search takes.
GraphPlan given_plan(const CostGraph& graph, const GivenStages& given, const SearchEffort& effort);

// Plans of the request, its slack left aside, of which none is better in bottleneck, bytes and
// memory; by bottleneck. Empty where nothing is within its memory. (Where a bottleneck is within
// half a percent of another, one of the two may be left out.)
std::vector<GraphPlan> front_of(const CostGraph& graph, const GraphRequest& request);

}  // namespace kerf::partitioner
