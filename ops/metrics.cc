#include "ops/metrics.h"

#include <algorithm>

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

}  // namespace kerf::ops
