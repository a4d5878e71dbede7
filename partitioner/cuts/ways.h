// Ways: each operator divided over all workers as a person's rules say (SINGA's partition dimension
// of each layer; Krizhevsky 2014, "One weird trick": convolutions by sample, the rest by feature).
//
//   --way 'conv*=batch' --way 'fc*=feature'
//
// Operators that no rule names follow what they read. A rule is honoured or its operator refused by
// name; that for all (`*`) speaks of those that can be divided so. Pure functions.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// By node of request.steering's ways; empty where the node follows. Throws Error{kUsage} at --way
// for a pattern that nothing fits, and names an operator that cannot be divided so.
std::vector<std::optional<ops::Layout>> divided_by_ways(const Model& model,
                                                        const PlanRequest& request, bool rewriting);
// Throws Error{kUsage} that names an operator that a rule asks to divide by feature, but whose
// division, which followed what it reads, is none. Of the model before or after its rewrites.
void check_ways(const Model& model, const PlanRequest& request, const Division& division);

}  // namespace kerf::partitioner
