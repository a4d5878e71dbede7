// Rows of a factor, users' or items': `rank` numbers each, in single precision, with zeros behind
// them up to a whole number of vectors; zeros stay zeros. Plain values; pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/mf/rating_cells.h"

namespace kerf::apps {

// That are computed with at once.
inline constexpr int kFactorLanes = 4;
inline int padded(int rank) { return (rank + kFactorLanes - 1) / kFactorLanes * kFactorLanes; }

enum class FactorSide : uint8_t { kUsers, kItems };

// The row that this user or item begins with, uniform with a variance of 1 / rank: a pure function
// of the seed.
void draw_row(FactorSide side, int64_t number, int rank, uint64_t seed, std::span<float> row);

// The sum over rows of how often they are rated times their squared length.
double weighted_squares(const float* rows, int stride, const std::vector<int64_t>& counts);

// What a step does: the step size, and the weight of a row's squared length.
struct SgdRate {
  float step = 0;
  float lambda = 0;
};

// One rating after the other, with the rows of its user p and its item q:
//   e = value - p . q;  p += step (e q - lambda p);  q += step (e p - lambda q), both from before.
// Returns the sum of e^2.
double take_steps(std::span<const Rating> ratings, const SgdRate& rate, int stride, float* users,
                  float* items);
// The same sum, of rows that stay.
double squared_errors(std::span<const Rating> ratings, int stride, const float* users,
                      const float* items);

}  // namespace kerf::apps
