#include "apps/mf/factor_rows.h"

#include <array>
#include <cmath>

#include "ops/random.h"

namespace kerf::apps {

namespace {

// The same sums in the same order, whatever the compiler knows of `stride`.
inline float product(const float* p, const float* q, int stride) {
  std::array<float, kFactorLanes> sums{};
  for (int k = 0; k < stride; k += kFactorLanes)
    for (int lane = 0; lane < kFactorLanes; ++lane)
      sums[static_cast<size_t>(lane)] += p[k + lane] * q[k + lane];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

inline void step_one(float e, const SgdRate& rate, int stride, float* __restrict p,
                     float* __restrict q) {
  for (int k = 0; k < stride; k += kFactorLanes)
    for (int lane = 0; lane < kFactorLanes; ++lane) {
      const float a = p[k + lane], b = q[k + lane];
      p[k + lane] = a + rate.step * (e * b - rate.lambda * a);
      q[k + lane] = b + rate.step * (e * a - rate.lambda * b);
    }
}

// A stride that is known when this is compiled makes straight code.
template <int kStride>
double steps_of(std::span<const Rating> ratings, const SgdRate& rate, int given, float* users,
                float* items) {
  const int stride = kStride > 0 ? kStride : given;
  const SgdRate here = rate;
  double sum = 0;
  for (const Rating& each : ratings) {
    float* p = users + int64_t{each.user} * stride;
    float* q = items + int64_t{each.item} * stride;
    const float e = each.value - product(p, q, stride);
    sum += static_cast<double>(e) * static_cast<double>(e);
    step_one(e, here, stride, p, q);
  }
  return sum;
}

}  // namespace

void draw_row(FactorSide side, int64_t number, int rank, uint64_t seed, std::span<float> row) {
  const uint32_t purpose = ops::kParameterPurpose + static_cast<uint32_t>(side);
  const std::span<float> numbers = row.first(static_cast<size_t>(rank));
  ops::fill_uniform({.seed = seed, .purpose = purpose}, number * rank, numbers);
  const float most = std::sqrt(3.0F / static_cast<float>(rank));
  for (float& each : numbers) each = most * (2 * each - 1);
}

double weighted_squares(const float* rows, int stride, const std::vector<int64_t>& counts) {
  double sum = 0;
  const float* row = rows;
  for (const int64_t count : counts) {
    sum += static_cast<double>(count) * static_cast<double>(product(row, row, stride));
    row += stride;
  }
  return sum;
}

double take_steps(std::span<const Rating> ratings, const SgdRate& rate, int stride, float* users,
                  float* items) {
  switch (stride) {
    case 4:
      return steps_of<4>(ratings, rate, stride, users, items);
    case 8:
      return steps_of<8>(ratings, rate, stride, users, items);
    case 12:
      return steps_of<12>(ratings, rate, stride, users, items);
    case 16:
      return steps_of<16>(ratings, rate, stride, users, items);
    case 32:
      return steps_of<32>(ratings, rate, stride, users, items);
    default:
      return steps_of<0>(ratings, rate, stride, users, items);
  }
}

double squared_errors(std::span<const Rating> ratings, int stride, const float* users,
                      const float* items) {
  double sum = 0;
  for (const Rating& each : ratings) {
    const auto e =
        static_cast<double>(each.value - product(users + int64_t{each.user} * stride,
                                                 items + int64_t{each.item} * stride, stride));
    sum += e * e;
  }
  return sum;
}

}  // namespace kerf::apps
