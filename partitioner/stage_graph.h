// The graph of a plan's stages: which wait for each other within a micro-batch.
//
//   towers   0 ─> 1 ─┐            a stage's forward waits for those that it reads, its backward for
//                    ├─> 4        those whose gradients it sums; mostly the same edges, but running
//            2 ─> 3 ─┘            sums (sums.h) go by stages that read nothing of each other
//
// Stages are numbered in the order in which they run: edges go up. Plain value, pure functions.
#pragma once

#include <vector>

#include "partitioner/plan.h"

namespace kerf::partitioner {

struct StageGraph {
  std::vector<std::vector<int>> reads;      // by stage: lower ones, ascending
  std::vector<std::vector<int>> gradients;  // by stage: higher ones, ascending

  int stages() const { return static_cast<int>(reads.size()); }
  bool operator==(const StageGraph&) const = default;
};

// Who is on which stage: groups[stage] lists its workers, who may have several stages. Where stages
// have replicas, all of them follow again for each, and it may be said which takes a micro-batch.
struct Pipeline {
  std::vector<std::vector<int>> groups;
  StageGraph graph;
  std::vector<int> replica_of = {};  // by micro-batch
};

// Each stage reads the one before it.
StageGraph chain_of_stages(int stages);
Pipeline chain_of(std::vector<std::vector<int>> groups, int replicas = 1);
// By the routes of the plan; what crosses once a step makes no edge.
StageGraph stage_graph_of(const Model& model, const Plan& plan);
Pipeline pipeline_of(const Model& model, const Plan& plan);

// How many edges lead to other workers, by stage: on the longest path from it to an end, of edges
// of either kind. What follows on the same workers runs after it, not beside it.
std::vector<int> hops_to_the_end(const Pipeline& pipeline);

}  // namespace kerf::partitioner
