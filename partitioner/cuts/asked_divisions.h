// What a free cut is asked of each node, in one of four ways:
//
//   shares    a file lists index sets (shares_file.h)
//   pattern   the features of every one-to-all operator go to workers evenly, in blocks in turn, or
//             in proportion to the workers' speeds
//   ways      each operator is divided by the way that the last rule names which fits it; a
//             one-to-all operator that no rule names, by `others`
//   devices   nothing is said but that devices differ: in proportion, bettered until the seconds
//             that workers compute hardly differ
//
// What none of them names follows its input, as in every free cut. Pure function.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// By node, empty where nothing is asked. `rewriting`: what a node needs whole may be divided, if a
// rewrite divides it. Throws Error{kUsage} that names file or flag, and the node.
std::vector<std::optional<ops::Layout>> asked_divisions(const Model& model,
                                                        const PlanRequest& request, bool rewriting);

}  // namespace kerf::partitioner
