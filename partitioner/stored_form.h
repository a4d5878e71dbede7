// How files of weights have a value that the model keeps, where the model has it otherwise: under
// PyTorch's name, with other axes or other rows, or in several tensors.
//
// PyTorch's LSTM has the gates i, f, g, o and a bias for each of its two products; ONNX's, which is
// Kerf's, has i, o, f, g and one bias. What exporters turn over keeps the axes of its file. Plain
// values; pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/tensor.h"

namespace kerf::partitioner {

// A tensor of a file of weights.
struct StoredTensor {
  std::string name;
  ops::Shape shape;
};

// Consecutive rows of one of the tensors.
struct StoredRows {
  size_t tensor = 0;
  int64_t first = 0;
  int64_t count = 0;
};

struct StoredForm {
  std::vector<StoredTensor> tensors;
  // Axis i of the value is axis axes[i] of the only tensor. Empty: as `rows` say.
  std::vector<int> axes = {};
  // The value, seen as [rows, columns], has these below each other; each of the tensors, which have
  // as many columns, is used up.
  std::vector<StoredRows> rows = {};

  int64_t row_count() const;
};

// The same elements in the same order.
StoredForm stored_as(const std::string& name, const ops::Shape& shape);
// A value of this shape whose axis i is axis axes[i] of the tensor.
StoredForm stored_turned(const std::string& name, const ops::Shape& shape,
                         const std::vector<int>& axes);

// By which of the model's blocks a cell's gates are, in PyTorch's numbers.
inline constexpr int64_t kLstmGates[] = {0, 3, 1, 2};
inline constexpr int64_t kGruGates[] = {1, 0, 2};
inline constexpr int64_t kRnnGates[] = {0};
// Of layer `layer` of a PyTorch module: `weight` is weight_ih or weight_hh of all directions
// [D, G H, columns], and the biases of both products [D, 2 G H].
StoredForm stored_cell_weight(const std::string& module, const std::string& weight, int64_t layer,
                              const ops::Shape& shape, std::span<const int64_t> gates);
StoredForm stored_cell_bias(const std::string& module, int64_t layer, const ops::Shape& shape,
                            std::span<const int64_t> gates);

// The elements, of `size` bytes each, of a dense tensor with its axes in another order: axis i of
// the result is its axis axes[i].
std::string turned(const std::string& bytes, size_t size, const ops::Shape& shape,
                   const std::vector<int>& axes);

}  // namespace kerf::partitioner
