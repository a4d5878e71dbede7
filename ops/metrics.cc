#include "ops/metrics.h"

#include <algorithm>
#include <array>

#include "ops/simd/simd.h"

namespace kerf::ops {
namespace {

// Of a row with a NaN no entry is the largest, so a network that diverged is right about nothing.
bool is_first_largest(std::span<const float> row, int64_t label) {
  if (label < 0 || label >= std::ssize(row)) return false;
  const auto at = static_cast<size_t>(label);
  const float best = row[at];
  const auto before = row.first(at);
  const auto after = row.subspan(at + 1);
  return best == best &&
         std::all_of(before.begin(), before.end(), [best](float x) { return x < best; }) &&
         std::all_of(after.begin(), after.end(), [best](float x) { return x <= best; });
}

// Sixteen interleaved partial sums, as in simd/lanes.h.
KERF_CLONES double sum_of_squares(const float* x, int64_t count) {
  constexpr int64_t kLanes = 16;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double entry = x[i + lane];
      sums[lane] += entry * entry;
    }
  for (int64_t lane = 0; i < count; ++i, ++lane) sums[lane] += double{x[i]} * x[i];
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  return sums[0];
}

}  // namespace

int64_t count_correct(const TensorView& scores, const TensorView& labels) {
  KERF_CHECK(scores.dtype == DType::kFloat32 && scores.shape.rank() == 2 &&
                 labels.dtype == DType::kInt64 && labels.shape.rank() == 1 &&
                 scores.shape[0] == labels.shape[0],
             "scores {} {} and labels {} {}", to_string(scores.dtype), to_string(scores.shape),
             to_string(labels.dtype), to_string(labels.shape));
  const int64_t classes = scores.shape[1];
  int64_t correct = 0;
  for (int64_t row = 0; row < scores.shape[0]; ++row) {
    const std::span<const float> entries(scores.f32() + row * classes,
                                         static_cast<size_t>(classes));
    if (is_first_largest(entries, labels.i64()[row])) ++correct;
  }
  return correct;
}

double squared_norm(const TensorView& tensor) {
  KERF_CHECK(tensor.dtype == DType::kFloat32, "the norm of {}", to_string(tensor.dtype));
  const int64_t count = tensor.elements();
  constexpr int64_t kMostPieces = 64;
  std::array<double, kMostPieces> sums{};
  const int64_t pieces = std::clamp<int64_t>(count / simd::kLeastElements, 1, kMostPieces);
  simd::parallel_pieces(pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t begin = count * piece / pieces;
      sums[static_cast<size_t>(piece)] =
          sum_of_squares(tensor.f32() + begin, count * (piece + 1) / pieces - begin);
    }
  });
  double sum = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) sum += sums[static_cast<size_t>(piece)];
  return sum;
}

}  // namespace kerf::ops
