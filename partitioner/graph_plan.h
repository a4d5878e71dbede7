// A layer cut of a cost graph that is no model: planned and priced, not run. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "partitioner/bound.h"
#include "partitioner/cost_graph.h"
#include "partitioner/cut.h"
#include "partitioner/search_effort.h"

namespace kerf::partitioner {

struct GraphRequest {
  int workers = 1;
  std::optional<int64_t> memory;  // bytes per worker
  // Devices of the graph's type 1 (hosts) beside the workers: used where they lower the bottleneck,
  // under no cap.
  int hosts = 0;
  double slack = 0;  // bytes are saved up to (1 + slack) times the least bottleneck
  SearchEffort effort = {};
};

struct GraphStage {
  std::vector<int> nodes;  // ascending
  int device_type = 0;
  double work = 0;      // in the graph's unit
  double wire = 0;      // of what enters and leaves
  double bytes_in = 0;  // of what enters: values, and gradients that it returns
  double memory = 0;
};

struct GraphPlan {
  std::vector<GraphStage> stages;  // one per worker
  std::vector<int> stage_of;       // by node
  double bottleneck = 0;
  Bound bound;
  double cut_bytes = 0;
  bool acyclic = false;
};

// Prices and checks any division: looks at the graph and the stages alone. `stages`: nodes of each;
// `device_types`: of each, or all are of type 0.
GraphPlan price_division(const CostGraph& graph, const std::vector<std::vector<int>>& stages,
                         const std::vector<int>& device_types = {});

// Throws Error{kUsage} for no workers, Error{kInfeasible} for more workers than there are groups of
// nodes that can be parted.
std::variant<GraphPlan, Infeasible> plan_graph(const CostGraph& graph, const GraphRequest& request);

}  // namespace kerf::partitioner
