// What is known of a value of a graph while a model is made of it: numbers, or a place in the
// model.
//
// Shape arithmetic is done here, with the batch symbolic: an element is c * N + d, and N is at
// least 1. Plain values.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "partitioner/model.h"
#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {

// of_batch * N + fixed.
struct Affine {
  int64_t of_batch = 0;
  int64_t fixed = 0;
  bool is_fixed() const { return of_batch == 0; }
  bool operator==(const Affine&) const = default;
};

// A small tensor of integers or truth values, row-major.
struct Integers {
  ops::DType dtype = ops::DType::kInt64;
  std::vector<int64_t> shape;
  std::vector<Affine> elements;
};
inline constexpr size_t kMostIntegers = size_t{1} << 16;  // elements

// A tensor of numbers that are the same for every sample: an initializer, or made of such.
struct Fixed {
  std::string name;  // that the value has in the model
  ops::ValueSpec spec;
  std::shared_ptr<const Contents> contents;  // null: it begins as `initializer` says
  ops::Initializer initializer = {};
  std::shared_ptr<const StoredForm> stored = nullptr;  // null: files of weights have it as it is
  std::string of = {};    // the file's weight that it is made of, where that has another name
  std::string told = {};  // to a person, where it is in the model

  // The name of the file's weight that it is or is made of.
  const std::string& origin() const { return of.empty() ? name : of; }
};

// Integers with a row for every sample: that of sample n has these, and n times `stride` more.
struct Places {
  Integers first;  // without the axis of the samples, which is before its own
  int64_t stride = 1;
};

using Known = std::variant<std::monostate, ValueId, Integers, Fixed, Places>;

// Of a constant; nothing where it is no tensor of integers, or a large one.
std::optional<Integers> integers_of(const Fixed& constant);
std::optional<Integers> integers_of(const ops::TensorLiteral& literal);
// Nothing where it depends on the batch.
std::optional<ops::TensorLiteral> literal_of(const Integers& integers);
// Of any element type and size up to `most_bytes`; throws Error{kUsage} above.
ops::TensorLiteral literal_of(const Fixed& constant, size_t most_bytes);
// The other way round; floats of other widths are float32, as those of files are.
Fixed fixed_of(const std::string& name, ops::TensorLiteral literal);
// The numbers as they are; nothing for what is not fixed.
std::optional<std::vector<int64_t>> fixed_elements(const Integers& integers);
// As its type has it: the low bits of what is too large, and truth of all but 0. What depends on
// the batch stays.
Affine narrowed(const Affine& element, ops::DType dtype);
// An int64 list of one axis.
Integers list_of(std::vector<Affine> elements);
// Product of extents. Throws Error{kUsage} where it is too large, and where only an extent of 0
// makes it small: what visits all places of the other axes would not end.
int64_t elements_in(const std::vector<int64_t>& shape);

}  // namespace kerf::partitioner::onnx
