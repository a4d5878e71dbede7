// How hand-written loops get all of their threads, and the widest vectors (clones.h).
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

#include "ops/simd/clones.h"

namespace kerf::ops::simd {

// Calls work(piece, begin, end) for contiguous pieces 0, 1, ... of [0, count), each at least
// `least` long, on as many threads as the caller has, at most one piece each. Pieces must be
// independent of each other. What one of them throws is thrown here, when all have ended: no
// exception may leave a parallel region.
template <class Work>
void parallel_numbered_pieces(int64_t count, int64_t least, const Work& work) {
  const auto pieces = std::min<int64_t>(omp_get_max_threads(), count / std::max<int64_t>(least, 1));
  if (pieces <= 1) {
    if (count > 0) work(int64_t{0}, int64_t{0}, count);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel for num_threads(static_cast <int>(pieces)) schedule(static)
  for (int64_t i = 0; i < pieces; ++i) try {
      work(i, count * i / pieces, count * (i + 1) / pieces);
    } catch (...) {
#pragma omp critical
      failure = std::current_exception();
    }
  if (failure) std::rethrow_exception(failure);
}

// The same for work(begin, end), which need not know its piece.
template <class Work>
void parallel_pieces(int64_t count, int64_t least, const Work& work) {
  parallel_numbered_pieces(count, least,
                           [&](int64_t, int64_t begin, int64_t end) { work(begin, end); });
}

// Below this many elements a second thread costs more than it saves.
inline constexpr int64_t kLeastElements = 1 << 14;

// to += from, in the caller's thread.
void add(const float* from, int64_t count, float* to);
// to (+)= from.
void copy_or_add(const float* from, int64_t count, float* to, bool accumulate);
// The sum of `count` numbers, in an order that depends on `count` only.
float sum_of(const float* x, int64_t count);

}  // namespace kerf::ops::simd
