// Convolution with few channels and stride 1, by hand: where oneDNN's blocks of 8 or 16 channels
// are mostly padding.
//
// A sample is padded once. In the padded rows, written one after another, the entry of a window
// that belongs to output p lies at p + a constant; so a convolution is a product of matrices whose
// rows overlap in memory: out[f][p] = sum over taps t of w[f][t] * in[offset[t] + p]. Outputs
// between the rows (where a window would wrap around) are computed and dropped.
//
// Owned by a kernel; belongs to its thread. Order of sums depends on the shapes and the instruction
// set.
#pragma once

#include <cstdint>

#include "ops/cpu/dnnl_conv.h"

namespace kerf::ops::cpu {

// Whether this way is the better one: a function of shapes other than the number of samples.
bool suits_direct_conv(const ConvProblem& problem);

void direct_conv_forward(const ConvProblem& problem, const float* x, const float* w,
                         const float* bias, float* y, Workspace& workspace);
void direct_conv_input_gradient(const ConvProblem& problem, const float* w, const float* dy,
                                float* dx, Workspace& workspace);
void direct_conv_weight_gradient(const ConvProblem& problem, const float* x, const float* dy,
                                 float* dw, bool accumulate, Workspace& workspace);
// What the one of the three takes that takes most, on so many threads.
size_t direct_conv_workspace_bytes(const ConvProblem& problem, int threads);

}  // namespace kerf::ops::cpu
