// What a step takes at the least, whatever the cut: bytes that workers hold between them at one
// moment. Soon known, so that what cannot fit is refused without a plan. Pure functions.
#pragma once

#include <cstdint>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// Weights, their optimizer states and gradients, and, as the loss of one micro-batch is there, what
// its gradients will read. Of a step of one micro-batch gradients come as that goes: what is more
// of the two.
int64_t least_memory(const Model& model, const PlanRequest& request);

// Whether that is more than all workers together may take.
bool exceeds_all_caps(int64_t bytes, const PlanRequest& request);

// A plan of no more operators takes next to nothing: of these the least that would fit is looked
// for to the byte.
inline constexpr int kFewNodes = 64;
// Of more, to a five hundredth of what is known to fit: so many bytes.
int64_t finest_step(const Model& model, int64_t fits);
// Whether no plan fits, and of so many operators that not every one is looked at for what would.
bool is_out_of_reach(const Model& model, const PlanRequest& request);

}  // namespace kerf::partitioner
