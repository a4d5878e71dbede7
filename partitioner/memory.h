// Memory: what the operators of one stage hold on one part, from their keeps() and boxes alone.
//
// An estimate of what lowering makes of it, used by the planner before there is a plan; predict()
// asks lowering itself. Per stage and part:
//
//   weights, trained    persistent, of the parameters' boxes
//   kept                per micro-batch in flight: what the gradients will read
//   transient           the most beyond `kept` at any instant of one micro-batch's F, I or W, with
//                       what kernels and copies take while they run
//
// Pure functions; no threads.
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/connector.h"
#include "partitioner/model.h"

namespace kerf::partitioner {

// Devices and channels hand out memory in blocks of 64 bytes.
inline int64_t whole_blocks(int64_t bytes) { return (bytes + 63) / 64 * 64; }
// Each channel's slots lie in pages of their own.
inline constexpr int64_t kPage = 4096;
inline int64_t whole_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

struct StageMemory {
  int64_t weights = 0;
  int64_t trained = 0;  // of them, those with gradients
  int64_t kept = 0;
  int64_t transient = 0;
  std::vector<ValueId> kept_arrivals;  // values made elsewhere that stay until the gradients

  // Weights, their gradients and optimizer states.
  int64_t persistent(int optimizer_states) const {
    return weights + trained * (1 + optimizer_states);
  }
};

// Fills in what the kernels will take, for micro-batches of `samples` rows.
void measure_workspace(const Model& model, std::vector<Computation>& computations, int64_t samples,
                       int threads);

// `mine`: the computations of one stage on one part, in model order. `samples`: rows of the largest
// micro-batch.
StageMemory stage_memory(const Model& model, const std::vector<const Computation*>& mine,
                         int64_t samples);

// One computation per node, of its whole output: what a layer cut is made of. Throws Error{kUsage}
// that names a node which cannot compute even that.
std::vector<Computation> whole_computations(const Model& model);

}  // namespace kerf::partitioner
