// The batch cut's rule (cuts/batch.cc has the cut).
//
//   counts samples (Gemm, Relu, the loss)   those of a micro-batch divided evenly: 10 over 4 is
//                                           3+3+2+2
//   counts none (a table, statistics)       replicated on the group: each part computes its own
//
// Pure functions; no threads.
#pragma once

#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// The division of a node with these iterations over the group, for micro-batches of `largest`
// samples at most. An operator that mixes samples gets a division that it refuses.
ops::Layout divide_by_samples(const ops::IterationSpace& space, const std::vector<int>& group,
                              int64_t largest);

}  // namespace kerf::partitioner
