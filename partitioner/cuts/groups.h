// Groups: consecutive layers on groups of workers, each group in its own way.
//
//   stage 0: conv1 ... conv4   by sample    on workers 0 1 2 3
//   stage 1: fc1 fc2 loss      by feature   on workers 4 5
//
// A layer is a one-to-all operator with its followers; what comes before the first belongs to it.
// By feature is the hybrid cut's rule for a stage (spread.h), by sample the batch cut's; a training
// batch normalisation by sample is rewritten to exchange sums. Plain values and pure functions.
#pragma once

#include <compare>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

enum class Way : uint8_t { kFeature, kSample };

struct GroupShape {
  int workers = 1;
  Way way = Way::kFeature;  // of one worker: this
  auto operator<=>(const GroupShape&) const = default;
};

// A stage: the layers from where the one before ends.
struct Group {
  int end = 0;  // exclusive
  GroupShape shape;
  bool operator==(const Group&) const = default;
};
using Groups = std::vector<Group>;

// Layer -> nodes. Of a rewritten model the pieces of a node are in its layer.
std::vector<std::vector<NodeId>> layers_of(const Model& model);
// Node -> layer.
std::vector<size_t> layer_of_nodes(const Model& model);
// Stages of these sizes, all by feature.
Groups even_groups(int workers, int stages);

// What the stages need rewritten.
std::vector<Rewrite> rewrites_of_groups(const Model& model, const PlanRequest& request,
                                        const Groups& groups);
// Of the model so rewritten, or of one that needs nothing rewritten. Workers in order.
Assignment assigned_to_groups(const Model& model, const PlanRequest& request, const Groups& groups,
                              double bound);

}  // namespace kerf::partitioner
