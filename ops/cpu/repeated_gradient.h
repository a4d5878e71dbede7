// The gradient of an input that may be repeated over the output.
#pragma once

#include "ops/cpu/repeated_rows.h"
#include "ops/kernel.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {

// So many elements are shared out at once.
inline constexpr int64_t kShared = 256;

// Sums into the target, aligned as `own`, what fill(at, count, shares) says of elements
// [at, at + count) of an output of shape `whole`. In ascending order, and in one thread where the
// input is repeated, so that sums never depend on the number of threads.
template <class Fill>
void sum_shares(const Shape& whole, const Shape& own, const GradientTarget& target,
                const Fill& fill) {
  const RepeatedRows<1> rows(whole, {own});
  float* to = target.to.f32();
  if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
  const int64_t least = own == whole ? simd::kLeastElements : whole.elements();
  simd::parallel_pieces(whole.elements(), least, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kShared) {
      float shares[kShared];
      const int64_t some = std::min(kShared, end - at);
      fill(at, some, shares);
      rows.visit(at, at + some, [&](int64_t place, const auto& from, int64_t count) {
        if (rows.stride(0) == 1)
          simd::add(shares + (place - at), count, to + from[0]);
        else
          to[from[0]] += simd::sum_of(shares + (place - at), count);
      });
    }
  });
}

}  // namespace kerf::ops::cpu
