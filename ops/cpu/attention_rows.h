// One query's scores, from products to weights and back: what of attention is not a product.
// Compiled for each instruction set. Pure functions.
#pragma once

#include <cstdint>
#include <limits>

namespace kerf::ops::cpu {

// Replaces `count` scores by e^(score - logarithm of the sum of e^score); returns that logarithm.
float weights_of_scores(float* scores, int64_t count);
// Of a query that sees no key: its weights are 0.
inline bool sees_nothing(float logarithm) {
  return logarithm == -std::numeric_limits<float>::infinity();
}
// The same where the logarithm is known.
void weights_again(float logarithm, int64_t count, float* scores);
// From weights and their gradients to those of the scores, in the gradients' place.
void score_gradients(const float* weights, int64_t count, float* gradients);

// score = c * tanh(score / c); slopes, if not null, gets the derivative.
void cap_scores(float cap, int64_t count, float* scores, float* slopes);
void add_to_scores(const float* mask, int64_t count, float* scores);
// Minus infinity where the mask is 0.
void drop_scores(const uint8_t* mask, int64_t count, float* scores);
void multiply_by(const float* factors, int64_t count, float* values);

}  // namespace kerf::ops::cpu
