// Sums over more than a row, by many blocks: pieces into the workbench's partial sums, and those
// into one. The order of a sum follows from its length.
#pragma once

#include <algorithm>

#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"

namespace kerf::ops::cuda {

inline constexpr int64_t kMostPiecesOfSum = 256;
static_assert(kMostPiecesOfSum <= CudaWorkbench::kMostPieces);

// Row p of the work is piece p.
template <class Term>
struct SumOfPiece : Adding<double> {
  Term of;  // of(i): a double
  int64_t count;
  int64_t pieces;
  double* sums;
  KERF_DEVICE int64_t begin(int64_t piece) const { return count * piece / pieces; }
  KERF_DEVICE int64_t length(int64_t row) const { return begin(row + 1) - begin(row); }
  KERF_DEVICE double term(int64_t row, int64_t i) const { return of(begin(row) + i); }
  KERF_DEVICE void finish(int64_t row, double sum) const { sums[row] = sum; }
};

template <class Then>
struct SumOfSums : Adding<double> {
  const double* sums;
  int64_t count;
  Then then;
  KERF_DEVICE int64_t length(int64_t) const { return count; }
  KERF_DEVICE double term(int64_t, int64_t i) const { return sums[i]; }
  KERF_DEVICE void finish(int64_t, double sum) const { then(sum); }
};

// What becomes of a loss's sum.
struct MeanTo {
  double normaliser;
  float* to;
  KERF_DEVICE void operator()(double sum) const { *to = static_cast<float>(sum / normaliser); }
};

// then(the sum of the first `count` partial sums).
template <class Then>
void add_partial_sums(const CudaWorkbench& bench, int64_t count, const Then& then) {
  reduce_rows(bench.queue(), 1, SumOfSums<Then>{{}, bench.partial_sums(), count, then});
}

// then(the sum of term(i) for i in [0, count)); a piece has `least` of them or more.
template <class Term, class Then>
void sum_in_pieces(const CudaWorkbench& bench, int64_t count, int64_t least, const Term& term,
                   const Then& then) {
  const int64_t pieces = std::clamp<int64_t>(count / least, 1, kMostPiecesOfSum);
  reduce_rows(bench.queue(), pieces,
              SumOfPiece<Term>{{}, term, count, pieces, bench.partial_sums()});
  add_partial_sums(bench, pieces, then);
}

}  // namespace kerf::ops::cuda
