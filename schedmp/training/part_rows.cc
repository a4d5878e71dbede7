#include "schedmp/training/part_rows.h"

namespace kerf::schedmp {

std::optional<int> table_of(const std::vector<std::pair<int, int>>& table_of_part, int part) {
  const auto found = std::ranges::find(table_of_part, part, &std::pair<int, int>::first);
  return found == table_of_part.end() ? std::nullopt : std::optional(found->second);
}

void PartRows::take(const SharedTensor& tensor, std::span<float> numbers) {
  const ops::TensorView& view = parameters_.view(place_, tensor.local);
  bench_.stream().copy(numbers.data(), view.data, view.bytes());
}

void PartRows::give(const SharedTensor& tensor, std::span<const float> numbers) {
  const ops::TensorView& view = parameters_.view(place_, tensor.local);
  bench_.stream().copy(view.data, numbers.data(), view.bytes());
}

}  // namespace kerf::schedmp
