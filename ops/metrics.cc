#include "ops/metrics.h"

#include <algorithm>
#include <array>

#include "ops/simd/lanes.h"
#include "ops/simd/simd.h"

namespace kerf::ops {
namespace {

// A tensor [n, length, ...] as rows along axis 1.
struct Rows {
  explicit Rows(const TensorView& tensor) : data(tensor.f32()), length(tensor.shape[1]) {
    for (int axis = 2; axis < tensor.shape.rank(); ++axis) step *= tensor.shape[axis];
    count = tensor.shape[0] * step;
  }
  float at(int64_t row, int64_t index) const {
    return data[(row / step * length + index) * step + row % step];
  }

  const float* data;
  int64_t length;
  int64_t step = 1;
  int64_t count = 0;
};

// Of a row with a NaN no entry is the largest, so a network that diverged is right about nothing.
bool is_among_largest(const Rows& rows, int64_t row, int64_t label, int64_t among) {
  if (label < 0 || label >= rows.length) return false;
  const float score = rows.at(row, label);
  if (score != score) return false;
  int64_t larger = 0;
  for (int64_t i = 0; i < rows.length && larger < among; ++i) {
    const float other = rows.at(row, i);
    const bool smaller = i < label ? other < score : other <= score;
    if (!smaller) ++larger;
  }
  return larger < among;
}

void check_rows(const TensorView& scores, const TensorView& of_rows, DType dtype) {
  bool fits = scores.dtype == DType::kFloat32 && of_rows.dtype == dtype &&
              scores.shape.rank() >= 2 && of_rows.shape.rank() == scores.shape.rank() - 1;
  for (int axis = 0; fits && axis < of_rows.shape.rank(); ++axis)
    fits = of_rows.shape[axis] == scores.shape[axis == 0 ? 0 : axis + 1];
  KERF_CHECK(fits, "{} {} and {} {}", to_string(scores.dtype), to_string(scores.shape),
             to_string(of_rows.dtype), to_string(of_rows.shape));
}

KERF_CLONES double sum_of_squares(const float* x, int64_t count) {
  return simd::sum_in_lanes<double>(count, [=](int64_t i) { return double{x[i]} * double{x[i]}; });
}

}  // namespace

int64_t count_correct(const TensorView& scores, const TensorView& labels, int64_t among) {
  check_rows(scores, labels, DType::kInt64);
  const Rows rows(scores);
  int64_t correct = 0;
  for (int64_t row = 0; row < rows.count; ++row)
    if (is_among_largest(rows, row, labels.i64()[row], among)) ++correct;
  return correct;
}

int64_t count_picked(const TensorView& maximum, const TensorView& picked) {
  check_rows(maximum, picked, DType::kFloat32);
  const Rows rows(maximum);
  int64_t correct = 0;
  for (int64_t row = 0; row < rows.count; ++row) {
    bool largest = true;
    for (int64_t i = 0; i < rows.length; ++i)
      largest = largest && rows.at(row, i) <= picked.f32()[row];
    if (largest) ++correct;
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
