// One query's scores, from products to weights and back: what of attention is not a product.
// Compiled for each instruction set. Pure functions.
#pragma once

#include <cstdint>
#include <limits>

namespace kerf::ops::cpu {

// Of a query: its largest score, and 1 by the sum of e^(score - largest). Apart, since a sum's
// logarithm is lost beside the scores of a query from which a large number hides everything.
struct ScoreSum {
  float largest = 0;
  float share = 0;

  // No key: its weights are 0.
  bool sees_nothing() const { return largest == -std::numeric_limits<float>::infinity(); }
};
// Replaces `count` scores by e^(score - largest) * share.
ScoreSum weights_of_scores(float* scores, int64_t count);
// The same, with the same bits, where those are known.
void weights_again(const ScoreSum& sum, int64_t count, float* scores);
// From weights and their gradients to those of the scores, in the gradients' place.
void score_gradients(const float* weights, int64_t count, float* gradients);

// score = c * tanh(score / c); slopes, if not null, gets the derivative.
void cap_scores(float cap, int64_t count, float* scores, float* slopes);
void add_to_scores(const float* mask, int64_t count, float* scores);
// Minus infinity where the mask is 0.
void drop_scores(const uint8_t* mask, int64_t count, float* scores);
void multiply_by(const float* factors, int64_t count, float* values);

}  // namespace kerf::ops::cpu
