// The file of a free cut: which worker computes what.
//
//   {"kerf_shares": 1,
//    "shares": {"fc1": {"0": "0-99,300", "1": "100-299,301-511"},
//               "fc2": {"0": {"inputs": "0-99,300"}, "1": {"inputs": "100-299,301-511"}},
//               "conv": {"0": {"samples": "0-7", "rows": "0-13"}, ...}, "loss": {"2": "all"}}}
//
// node -> worker -> what it computes: indices of axis 1 of its output, or a set for each axis of
// its iterations that is divided (of "samples": within a micro-batch); "all" is the whole. Where an
// axis is divided that results are summed over, workers hold partial sums. Pure function.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// Of request.shares: by node its division, empty where the file does not list it. `rewriting`: it
// may divide what a node needs whole, if a rewrite divides it. Throws Error{kUsage} that names
// file, node and worker.
std::vector<std::optional<ops::Layout>> read_shares(const Model& model, const PlanRequest& request,
                                                    bool rewriting);

}  // namespace kerf::partitioner
