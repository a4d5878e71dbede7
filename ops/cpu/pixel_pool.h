// Pooling with channels last: every entry of a window is a stretch of channels, done in vectors.
//
// The inner loops of MaxPool and of AveragePool's forward, compiled for each instruction set. A
// vector of a pixel's last channels reaches into the next pixel: what is written there is written
// again, or is added 0 to; pixels at the end of the memory are done one by one. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu/pool_taps.h"
#include "ops/window.h"

namespace kerf::ops::cpu {

struct PixelPool {
  Window window;
  int64_t channels = 0;
  int64_t index_bytes = 1;  // of an entry's number within its window: 1 or 4
  // Elements of the whole input and output, beyond which nothing is read.
  int64_t input_elements = 0;
  int64_t output_elements = 0;
};

// Whether every pixel of the input belongs to one window, and vectors to one pixel: gradients need
// no sums.
bool tiles(const PixelPool& pool);

// Rows [first, last) of all samples' rows of the output. `index`, which may be null, gets the
// number of the entry that each element took: the first of equal ones, in row-major order.
void max_of_pixels(const PixelPool& pool, const float* x, int64_t first, int64_t last, float* y,
                   std::byte* index);
// Samples [first, last): dx is overwritten.
void max_gradient_of_pixels(const PixelPool& pool, const float* dy, const std::byte* index,
                            int64_t first, int64_t last, float* dx);
// Rows [first, last) of all samples' rows of the output.
void average_of_pixels(const PixelPool& pool, const AveragedEntries& entries, const float* x,
                       int64_t first, int64_t last, float* y);
// Samples [first, last), where the windows are tiles: dx is overwritten.
void average_gradient_of_tiles(const PixelPool& pool, const AveragedEntries& entries,
                               const float* dy, int64_t first, int64_t last, float* dx);

}  // namespace kerf::ops::cpu
