// Pooling in ONNX's order: an entry of all windows of a row is a stretch of the input, every
// `stride`-th number of it, done in vectors. Compiled for each instruction set. Pure functions, of
// one channel of one sample.
#pragma once

#include <cstdint>

#include "ops/window.h"

namespace kerf::ops::cpu {

// `narrow` or `wide`, or neither, gets the number of the entry that each window took: the first of
// equal ones, in row-major order. NaN wins.
void max_of_plane(const Window& window, const float* x, float* y, uint8_t* narrow, int32_t* wide);
// `shares`: of an entry in its window's average, for every window.
void average_of_plane(const Window& window, const float* shares, const float* x, float* y);
// dx is overwritten.
void average_gradient_of_plane(const Window& window, const float* shares, const float* dy,
                               float* dx);

}  // namespace kerf::ops::cpu
