// Rows that are brought to mean 0 and variance 1: what normalisations within a sample share.
// Compiled for each instruction set. Pure functions; those with `work` compute on as many threads
// as are worth it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernel.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {

// The sum of dy * (x - mean).
float sum_centred_product(const float* dy, const float* x, float mean, int64_t count);
// dx = dy * scale + (x - mean) * slope + shift.
void map_row_gradient(const float* dy, float scale, const float* x, float mean, float slope,
                      float shift, int64_t count, float* dx);

// ---- with a scale for each number of the row

// y = x * factor * scale
void scale_row(const float* x, float factor, const float* scale, int64_t count, float* y);
float sum_squares(const float* x, int64_t count);
// The sum of dy * scale * x.
float sum_scaled_product(const float* dy, const float* scale, const float* x, int64_t count);
// dx = dy * scale * factor + x * slope
void scaled_row_gradient(const float* dy, const float* scale, float factor, const float* x,
                         float slope, int64_t count, float* dx);
// sums += dy * x * factor
void add_scaled_products(const float* dy, const float* x, float factor, int64_t count, float* sums);

// ---- with a scale for each number of the row, and a mean

// y = (x - mean) * inverse * scale + bias; bias may be null.
void normalise_row(const float* x, float mean, float inverse, const float* scale, const float* bias,
                   int64_t count, float* y);
float sum_scaled(const float* dy, const float* scale, int64_t count);
// The sum of dy * scale * (x - mean).
float sum_scaled_centred(const float* dy, const float* scale, const float* x, float mean,
                         int64_t count);
// products += dy * (x - mean) * inverse, sums += dy
void add_normalised_products(const float* dy, const float* x, float mean, float inverse,
                             int64_t count, float* products, float* sums);

// ---- over all rows

// Calls work(row) for all rows of `length` numbers.
template <class Work>
void for_rows(int64_t rows, int64_t length, const Work& work) {
  simd::parallel_pieces(rows, 1 + simd::kLeastElements / std::max<int64_t>(length, 1),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t row = begin; row < end; ++row) work(row);
                        });
}

// Calls work(row, begin, end) for all rows of threads that take columns, in ascending order: sums
// over rows do not depend on the number of threads.
template <class Work>
void for_columns(int64_t rows, int64_t length, const Work& work) {
  if (rows == 0) return;
  const int64_t least = std::max<int64_t>(16, simd::kLeastElements / rows);
  simd::parallel_pieces(length, least, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < rows; ++row) work(row, begin, end);
  });
}

// The weight gradients that an input gradient handed on: those of `scale` (an input's index), then
// those of the bias.
void take_handed_sums(const Call& call, int scale, std::span<const GradientTarget> targets);

}  // namespace kerf::ops::cpu
