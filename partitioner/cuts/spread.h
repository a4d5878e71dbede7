// Spreading: the layout of one operator's output over a group of parts, given its inputs' layouts.
// What the feature, hybrid and free cuts have in common.
//
//   one-to-all (Gemm, Conv)   its features divided evenly: 10 over 4 is 3+3+2+2
//   follower (Relu, Add ...)  the layout of its first input on the same group that it can follow;
//                             replicated on the group where it follows data
//   needs an axis whole       whole on the first part of the group (Softmax, the loss)
//
// An operator that refuses is left to connect(), which names it. Pure functions; no threads.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// Whether a feature of the output needs all of the input, so that layers begin here.
bool is_one_to_all(const Model& model, NodeId node);

// The whole output's box with `set` on the axis that a feature cut divides.
ops::Box feature_box(const Model& model, NodeId node, const ops::IndexSet& set);

// spread() itself is in cut.h: a plan's text leaves out what it would choose.

// Fills in layouts of the nodes of all stages, in model order, `given` (by node) where there is
// one; and the bound, by what the request minimises.
Assignment spread_all(const Model& model, const PlanRequest& request, std::vector<Stage> stages,
                      const std::vector<std::optional<ops::Layout>>& given);

}  // namespace kerf::partitioner
