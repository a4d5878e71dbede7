// Nodes whose results are facts of the file: constants, and the extents of what is known.
#include <algorithm>
#include <cmath>
#include <utility>

#include "partitioner/onnx/importer.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;
using ops::TensorLiteral;
using Ints = std::vector<int64_t>;

template <class T>
std::string bytes_of_list(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TensorLiteral floats_literal(const std::vector<double>& numbers, const ops::Shape& shape) {
  const std::vector<float> narrow(numbers.begin(), numbers.end());
  return {DType::kFloat32, shape, bytes_of_list(narrow)};
}

// Of a Constant's one attribute.
TensorLiteral literal_of_node(const GraphNode& node) {
  if (node.attributes.size() != 1)
    throw Error(ErrorCode::kUsage, "it must have one attribute, its value");
  const auto& [name, value] = *node.attributes.begin();
  if (const auto* tensor = std::get_if<TensorLiteral>(&value)) return *tensor;
  if (const auto* number = std::get_if<double>(&value)) return floats_literal({*number}, {});
  if (const auto* list = std::get_if<std::vector<double>>(&value))
    return floats_literal(*list, {static_cast<int64_t>(list->size())});
  if (const auto* integer = std::get_if<int64_t>(&value))
    return {DType::kInt64, {}, bytes_of_list(Ints{*integer})};
  if (const auto* list = std::get_if<Ints>(&value))
    return {DType::kInt64, {static_cast<int64_t>(list->size())}, bytes_of_list(*list)};
  throw Error(ErrorCode::kUsage, format("its {} is not known here", name));
}

// Of a number of elements, and an extent.
Affine product_of(const Affine& size, const Affine& extent) {
  const bool batched = !extent.is_fixed();
  Affine product;
  if (__builtin_mul_overflow(size.fixed, batched ? extent.of_batch : extent.fixed,
                             batched ? &product.of_batch : &product.fixed) ||
      (!batched && __builtin_mul_overflow(size.of_batch, extent.fixed, &product.of_batch)))
    throw Error(ErrorCode::kUsage, "its input has more elements than can be counted");
  return product;
}

// Of every element of a ConstantOfShape.
TensorLiteral fill_of(const GraphNode& node) {
  const auto value = node.attributes.find("value");
  if (value == node.attributes.end()) return floats_literal({0}, {});
  const auto* given = std::get_if<TensorLiteral>(&value->second);
  if (given == nullptr) throw Error(ErrorCode::kUsage, "its value must be a tensor");
  if (given->shape.elements() != 1) throw Error(ErrorCode::kUsage, "its value must be one element");
  TensorLiteral one = *given;
  one.shape = {};
  return one;
}

double number_of(const TensorLiteral& one) {
  if (one.dtype == DType::kFloat32) {
    float number = 0;
    std::copy_n(one.bytes.data(), sizeof(number), reinterpret_cast<char*>(&number));
    return static_cast<double>(number);
  }
  const auto number = integers_of(one);
  if (!number)
    throw Error(ErrorCode::kUsage,
                format("its element type {} is not known", ops::to_string(one.dtype)));
  const auto fill = static_cast<double>(number->elements[0].fixed);
  if (std::abs(fill) >= 0x1p53)
    throw Error(ErrorCode::kUsage,
                format("its value {} is larger than 2^53", number->elements[0].fixed));
  return fill;
}

}  // namespace

bool Importer::fold_facts(const GraphNode& node) {
  if (node.outputs.empty()) return false;
  const std::string& output = node.outputs[0];
  if (node.op == "Constant") {
    TensorLiteral literal = literal_of_node(node);
    if (auto found = integers_of(literal))
      set(output, std::move(*found));
    else
      set(output, fixed_of(output, std::move(literal)));
    return true;
  }
  if (node.inputs.empty() || node.inputs[0].empty()) return false;
  if (node.op == "Shape" || node.op == "Size") {
    set(output, extents_asked(node));
    return true;
  }
  if (node.op != "ConstantOfShape") return false;
  set_filled(node);
  return true;
}

Integers Importer::extents_asked(const GraphNode& node) const {
  std::vector<Affine> extents;
  for (const int64_t extent : shape_of(node.inputs[0]))
    extents.push_back(extent < 0 ? Affine{-extent, 0} : Affine{0, extent});
  if (node.op == "Size") {
    Affine size{0, 1};
    for (const Affine& one : extents) size = product_of(size, one);
    return {DType::kInt64, {}, {size}};
  }
  const auto rank = static_cast<int64_t>(extents.size());
  const auto bound = [&](const char* name, int64_t otherwise) {
    const int64_t at = ops::attribute_int(node.attributes, name, otherwise);
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t begin = bound("start", 0);
  const int64_t end = std::max(begin, bound("end", rank));
  return list_of({extents.begin() + begin, extents.begin() + end});
}

void Importer::set_filled(const GraphNode& node) {
  const auto shape = integers(node.inputs[0]);
  if (!shape) refuse("its shape must be known");
  Ints extents, rows;
  for (const Affine& extent : shape->elements) {
    const bool of_batch = extent == Affine{1, 0};
    if (!of_batch && !extent.is_fixed()) refuse("its shape depends on how large the batch is");
    if (extent.fixed < 0) refuse(format("its shape has an extent of {}", extent.fixed));
    extents.push_back(of_batch ? 1 : extent.fixed);
    rows.push_back(of_batch ? ops::kBatch : extent.fixed);
  }
  elements_in(extents);
  const TensorLiteral one = fill_of(node);
  const std::string& output = node.outputs[0];
  Fixed filled{output,
               {one.dtype, ops::Shape(extents)},
               nullptr,
               {ops::Initializer::Kind::kConstant, number_of(one)}};
  if (rows == extents) {
    set(output, std::move(filled));
    return;
  }
  // One row, repeated for every sample.
  const std::string row = inner(node, "row");
  filled.name = row;
  set(row, std::move(filled));
  add_node({node.name, "Expand", {{"shape", rows}}, {row}, {output}});
}

}  // namespace kerf::partitioner::onnx
