// The hybrid cut of a graph that is no model: stages in a row, each replicated over workers that
// share its batch by samples, as PipeDream's are (Narayanan et al. 2019, section 3.1).
//
//   nodes     a b c d | e f g | h         stage 0 on three workers, stage 1 on two, stage 2 on one
//   workers   0 1 2   | 3 4   | 5
//
//   time of a stage   on r workers: max((work + wire) / r, all-reduce of its weights)
//   all-reduce        2 (r - 1) / r times the bytes of what it holds for good, as fast as the
//                     graph's values travel (all their time by all their bytes), or as Kerf's
//                     default link where they take no time
//   memory            what it holds for good, and an r-th of what it holds for a batch
//
// Borrows graph and units; pure functions.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/graph_plan.h"
#include "partitioner/units.h"

namespace kerf::partitioner {

inline constexpr int kMostReplicatedOver = 128;  // workers

struct ReplicatedStages {
  std::vector<std::vector<int>> stages;  // of nodes, ascending
  std::vector<int> replicas;             // by stage
};

// The least bottleneck of the topological orders of the units, cut where boundaries divide the work
// evenly if they are many. Empty if none is within `memory` (kNever: no cap).
std::optional<ReplicatedStages> replicate_stages(const CostGraph& graph, const Units& units,
                                                 int workers, double memory);

// Prices any such stages: looks at graph and stages alone. Its workers are those of stage 0, then
// of stage 1, and so on.
GraphPlan price_replicated(const CostGraph& graph, const ReplicatedStages& division);

}  // namespace kerf::partitioner
