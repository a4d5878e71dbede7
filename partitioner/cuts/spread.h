// Spreading: the division of one operator over a group of parts, given those of what it reads. What
// the feature, hybrid and free cuts have in common.
//
//   one-to-all (Gemm, Conv)   its features divided evenly: 10 over 4 is 3+3+2+2, in whole units
//   follower (Relu, Add ...)  as the first input on the same group that it can follow; replicated
//                             on the group where it reads data only
//   else                      whole on the first part of the group (Softmax, the loss)
//
// Pure functions; no threads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// Whether a feature of the output needs all of the activations, so that layers begin here.
bool is_one_to_all(const Model& model, NodeId node);

// The axis of a node's iterations that a feature cut divides; -1 if there is none.
int feature_axis(const Model& model, NodeId node);

// spread() itself is in cut.h: a plan's text leaves out what it would choose.

// The model's work, by what the request minimises, over its workers: no division does with less.
double even_share(const Model& model, const PlanRequest& request);

// Divides the nodes of all stages, in model order, as `given` (by node) where that says.
Assignment spread_all(const Model& model, const PlanRequest& request, std::vector<Stage> stages,
                      double bound, const std::vector<std::optional<ops::Layout>>& given);

// Parts with nothing to compute, ascending.
std::vector<int> idle_parts(const PlanRequest& request, const Division& division);
// Throws Error{kInfeasible} that names the part and says why, with the way out.
[[noreturn]] void refuse_idle(const PlanRequest& request, int part, const std::string& reason);

}  // namespace kerf::partitioner
