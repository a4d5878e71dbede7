// Convolution of one or two channels, channels last, by hand, forward and for the weights: where
// oneDNN's blocks of channels are mostly padding.
//
// The vectors' lanes are neighbouring filters of one pixel, and every number of a window is
// multiplied with all of them. A row of a window is one stretch of memory, pixels of a block share
// the weights, and their sums stay in registers (tap_sums.h). Where filters are fewer than lanes,
// neighbouring pixels are taken for one of as many filters more, whose window is as much wider:
//
//   6 filters, 16 lanes     pixels  0 1 | 2 3 | ...     12 of 16 lanes; a row of 5 becomes one of 6
//
// The figures that it stands for are in docs/benchmarks.md; from three channels on, and for the
// input's gradient, oneDNN is as fast or faster.
//
// A neighbour's pixels are multiplied by zeros: of an input that is not finite, more of the result
// is no number than by the definition.
//
// Owned by a kernel; belongs to its thread. Order of sums depends on the shapes and the instruction
// set.
#pragma once

#include "ops/cpu/conv_problem.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {

// Whether this way is the better one: a function of shapes other than the number of samples.
bool suits_narrow_conv(const ConvProblem& problem);

// bias may be null.
void narrow_conv_forward(const ConvProblem& problem, const float* x, const float* w,
                         const float* bias, float* y, Workspace& workspace);
// Where a gradient goes, and whether it is added to what is there. dbias.data may be null: not
// wanted.
struct ConvGradient {
  float* data = nullptr;
  bool accumulate = false;
};
void narrow_conv_weight_gradient(const ConvProblem& problem, const float* x, const float* dy,
                                 const ConvGradient& dw, const ConvGradient& dbias,
                                 Workspace& workspace);
// What the one of the two takes that takes more, on so many threads.
size_t narrow_conv_workspace_bytes(const ConvProblem& problem, int threads);

}  // namespace kerf::ops::cpu
