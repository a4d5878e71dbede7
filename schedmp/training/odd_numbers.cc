#include "schedmp/training/odd_numbers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/error.h"

namespace kerf::schedmp {

std::string odd_number(const Dataset& data, const partitioner::Model& model,
                       std::span<const int64_t> rows) {
  std::vector<float> numbers;
  for (const int64_t& row : rows)
    for (partitioner::ValueId id = 0; id < model.values(); ++id) {
      const partitioner::Value& value = model.value(id);
      const bool is_label = value.role == partitioner::Role::kLabel;
      if (value.spec.dtype != ops::DType::kFloat32 ||
          (value.role != partitioner::Role::kInput && !is_label))
        continue;
      numbers.resize(static_cast<size_t>(value.spec.shape.elements_per_sample()));
      const ops::TensorView to{ops::DType::kFloat32, value.spec.shape.with_batch(1),
                               reinterpret_cast<std::byte*>(numbers.data())};
      if (is_label)
        data.read_labels({&row, 1}, to);
      else
        data.read_input(value.name, {&row, 1}, to);
      if (!std::ranges::all_of(numbers, [](float each) { return std::isfinite(each); }))
        return kerf::format("row {} of {}", row, value.name);
    }
  return {};
}

}  // namespace kerf::schedmp
