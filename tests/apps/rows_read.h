// What a data set has of some rows, as a test compares it.
#pragma once

#include <filesystem>
#include <vector>

#include "schedmp/dataset.h"

namespace kerf::tests {

// Of files/make_files.py.
inline const std::filesystem::path kDataFiles = KERF_TEST_FILES;

// Of float32 inputs.
inline std::vector<float> inputs_of(const schedmp::Dataset& data,
                                    const std::vector<int64_t>& rows) {
  const int64_t width = data.input("x").value().shape.elements_per_sample();
  std::vector<float> values(rows.size() * static_cast<size_t>(width));
  data.read_input("x", rows,
                  {ops::DType::kFloat32,
                   {std::ssize(rows), width},
                   reinterpret_cast<std::byte*>(values.data())});
  return values;
}

// Of labels or, of text, of inputs.
inline std::vector<int64_t> whole_numbers(const schedmp::Dataset& data,
                                          const std::vector<int64_t>& rows, bool labels = true) {
  const int64_t width = data.labels().elements_per_sample();
  std::vector<int64_t> values(rows.size() * static_cast<size_t>(width));
  const ops::TensorView to{
      ops::DType::kInt64, {std::ssize(rows), width}, reinterpret_cast<std::byte*>(values.data())};
  labels ? data.read_labels(rows, to) : data.read_input("tokens", rows, to);
  return values;
}

}  // namespace kerf::tests
