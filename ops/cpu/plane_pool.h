// Pooling in ONNX's order: an entry of all windows of a row is a stretch of the input, every
// `stride`-th number of it, done in vectors. Compiled for each instruction set. Pure functions, of
// one channel of one sample.
#pragma once

#include <cstdint>

#include "ops/cpu/pool_taps.h"
#include "ops/window.h"

namespace kerf::ops::cpu {

// `narrow` or `wide`, or neither, gets the number of the entry that each window took: the first of
// equal ones, in row-major order. NaN wins, the last of several.
void max_of_plane(const Window& window, const float* x, float* y, uint8_t* narrow, int32_t* wide);
void average_of_plane(const Window& window, const AveragedEntries& entries, const float* x,
                      float* y);
// dx is overwritten.
void average_gradient_of_plane(const Window& window, const AveragedEntries& entries,
                               const float* dy, float* dx);

}  // namespace kerf::ops::cpu
