// Rows that are brought to mean 0 and variance 1: what normalisations within a sample share.
// Compiled for each instruction set. Pure functions.
#pragma once

#include <cstdint>

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

}  // namespace kerf::ops::cpu
