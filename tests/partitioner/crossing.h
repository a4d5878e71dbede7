// Connectors carry values forward (A) and gradients back (A'), and the two are adjoint: <Ax, y> =
// <x, A'y> for every activation, exactly, in whole numbers.
//
//   x: one tensor per distinct box of the producer's iterations (replicas one, partial sums one
//      each)
//   y: one tensor per contribution: a use by a distinct box of the consumer's (replicas are one)
//
// The routes alone are run, with pack and unpack, in memory; no operator computes anything. Ax runs
// values' routes only and A'y gradients' only: neither side knows what the other has. What is
// reduced in slices and gathered again goes that way here, too.
#pragma once

#include "partitioner/plan.h"
#include "partitioner/sources.h"
#include "tests/partitioner/random_cut.h"

namespace kerf::partitioner {

inline constexpr int64_t kCrossingSamples = 3;

// `samples` cross; index sets of the batch are clipped to them.
void expect_adjoint(const Model& model, const Division& division, Random& random,
                    int64_t samples = kCrossingSamples);
// With its stages, between which gradients are summed on their way.
void expect_adjoint(const Model& model, const Plan& plan, Random& random);

}  // namespace kerf::partitioner
