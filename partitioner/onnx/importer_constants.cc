// Nodes that become no node: their results are known, or are what they are given.
#include <algorithm>
#include <cmath>
#include <utility>

#include "partitioner/onnx/fold.h"
#include "partitioner/onnx/importer.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;
using ops::TensorLiteral;
using Ints = std::vector<int64_t>;

// ONNX's numbers of element types.
bool is_floating_type(int64_t onnx_type) {
  return onnx_type == 1 || onnx_type == 10 || onnx_type == 11 || onnx_type == 16;
}

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

Ints flattened(const Ints& shape, int64_t given) {
  const int64_t axis = given < 0 ? given + static_cast<int64_t>(shape.size()) : given;
  if (axis < 0 || axis > static_cast<int64_t>(shape.size()))
    throw Error(ErrorCode::kUsage, format("there is no axis {}", given));
  const auto at = shape.begin() + axis;
  return {elements_in({shape.begin(), at}), elements_in({at, shape.end()})};
}

}  // namespace

bool Importer::pass_through(const GraphNode& node) {
  if (node.inputs.empty() || node.inputs[0].empty() || node.outputs.empty()) return false;
  const bool floating =
      node.op == "Cast" && is_floating_type(ops::attribute_int(node.attributes, "to", 0));
  if (node.op != "Identity" && node.op != "Dropout" && !floating) return false;
  Known value = known(node.inputs[0]);
  const auto* id = std::get_if<ValueId>(&value);
  if (floating) {
    const auto* fixed = std::get_if<Fixed>(&value);
    const bool same = id != nullptr ? ops::is_floating(result_.model.value(*id).spec.dtype)
                                    : fixed != nullptr && ops::is_floating(fixed->spec.dtype);
    if (!same) return false;
    const int64_t to = ops::attribute_int(node.attributes, "to", 0);
    if (to != 1)
      note(format("casts to {} are none here: what is computed of them is computed in float32",
                  to == 10   ? "float16"
                  : to == 11 ? "float64"
                             : "bfloat16"));
  }
  if (node.op == "Dropout" && !options_.loss.empty()) return false;
  if (node.op == "Dropout") {
    const ops::Shape shape = shape_of(node.inputs[0]);
    if (node.outputs.size() > 1 && shape.batched())
      refuse("its mask is not known here; nothing may read it");
    if (node.outputs.size() > 1)  // in answers nothing is dropped
      set(node.outputs[1], Fixed{node.outputs[1],
                                 {DType::kBool, shape},
                                 nullptr,
                                 {ops::Initializer::Kind::kConstant, 1}});
    const auto training =
        node.inputs.size() > 2 && !node.inputs[2].empty() ? integers(node.inputs[2]) : std::nullopt;
    const bool trains =
        training && training->elements.size() == 1 && training->elements[0].fixed != 0;
    if (trains && ratio_of(node) != 0)
      refuse("it drops at random, which is known of training only: export it for inference");
  }
  // What a model gives is computed.
  const bool given = std::find(graph_.outputs.begin(), graph_.outputs.end(), node.outputs[0]) !=
                     graph_.outputs.end();
  if (given && id != nullptr && result_.model.value(*id).producer < 0) {
    add_node({node.name, "Identity", {}, {node.inputs[0]}, {node.outputs[0]}});
    return true;
  }
  if (auto* fixed = std::get_if<Fixed>(&value)) name_copy(node, *fixed);
  set(node.outputs[0], std::move(value));
  return true;
}

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
    std::vector<Affine> extents;
    Affine size{0, 1};
    for (const int64_t extent : shape_of(node.inputs[0])) {
      extents.push_back(extent < 0 ? Affine{-extent, 0} : Affine{0, extent});
    }
    if (node.op == "Size") {
      for (const Affine& one : extents) size = product_of(size, one);
      set(output, Integers{DType::kInt64, {}, {size}});
      return true;
    }
    const auto rank = static_cast<int64_t>(extents.size());
    const auto bound = [&](const char* name, int64_t otherwise) {
      const int64_t at = ops::attribute_int(node.attributes, name, otherwise);
      return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const int64_t begin = bound("start", 0);
    const int64_t end = std::max(begin, bound("end", rank));
    set(output, list_of({extents.begin() + begin, extents.begin() + end}));
    return true;
  }
  if (node.op != "ConstantOfShape") return false;
  const auto shape = integers(node.inputs[0]);
  if (!shape) refuse("its shape must be known");
  Ints extents;
  bool batched = false;
  for (const Affine& extent : shape->elements) {
    const bool rows = extent == Affine{1, 0};
    if (!rows && !extent.is_fixed()) refuse("its shape depends on how large the batch is");
    if (extent.fixed < 0) refuse(format("its shape has an extent of {}", extent.fixed));
    batched = batched || rows;
    extents.push_back(rows ? 1 : extent.fixed);
  }
  const auto value = node.attributes.find("value");
  TensorLiteral one = floats_literal({0}, {1});
  if (value != node.attributes.end()) {
    const auto* given = std::get_if<TensorLiteral>(&value->second);
    if (given == nullptr) refuse("its value must be a tensor");
    one = *given;
  }
  if (one.shape.elements() != 1) refuse("its value must be one element");
  one.shape = {};
  Fixed filled{
      output, {one.dtype, ops::Shape(extents)}, nullptr, {ops::Initializer::Kind::kConstant}};
  elements_in(extents);
  if (one.dtype == DType::kFloat32) {
    float number = 0;
    std::copy_n(one.bytes.data(), sizeof(number), reinterpret_cast<char*>(&number));
    filled.initializer.scale = static_cast<double>(number);
  } else {
    const auto number = integers_of(one);
    if (!number) refuse(format("its element type {} is not known", ops::to_string(one.dtype)));
    const int64_t fill = number->elements[0].fixed;
    if (std::abs(static_cast<double>(fill)) >= 0x1p53)
      refuse(format("its value {} is larger than 2^53", fill));
    filled.initializer.scale = static_cast<double>(fill);
  }
  if (!batched) {
    set(output, std::move(filled));
    return true;
  }
  // One row, repeated for every sample.
  const std::string row = inner(node, "row");
  filled.name = row;
  set(row, std::move(filled));
  Ints rows;
  for (const Affine& extent : shape->elements)
    rows.push_back(extent.is_fixed() ? extent.fixed : ops::kBatch);
  add_node({node.name, "Expand", {{"shape", rows}}, {row}, {output}});
  return true;
}

// Whether it is quick to have all its inputs at hand.
bool Importer::is_small(const GraphNode& node) const {
  size_t elements = 0;
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    const Known& value = known(input);
    if (const auto* integers = std::get_if<Integers>(&value)) elements += integers->elements.size();
    if (const auto* fixed = std::get_if<Fixed>(&value))
      elements += static_cast<size_t>(fixed->spec.shape.elements());
  }
  return elements <= 4 * kMostIntegers;
}

bool Importer::fold_integers(const GraphNode& node) {
  if (!is_small(node)) return false;
  std::vector<Integers> held;
  held.reserve(node.inputs.size());
  size_t elements = 0;
  FoldInputs inputs;
  for (const std::string& input : node.inputs) {
    auto found = input.empty() ? std::nullopt : integers(input);
    if (!found && !input.empty()) return false;
    if (found) elements += found->elements.size();
    if (found) held.push_back(std::move(*found));
    inputs.push_back(found ? &held.back() : nullptr);
  }
  auto results = fold(node, inputs);
  if (!results || results->size() < node.outputs.size()) return false;
  for (const Integers& result : *results) elements += result.elements.size();
  budget_.take(elements * sizeof(Affine), 0);
  for (size_t i = 0; i < node.outputs.size(); ++i) set(node.outputs[i], std::move((*results)[i]));
  return true;
}

// Exporters write an Expand for any size of batch, of 1 too.
bool Importer::expands_nothing(const GraphNode& node, const Ints& from) const {
  const auto found =
      node.inputs.size() > 1 && !node.inputs[1].empty() ? integers(node.inputs[1]) : std::nullopt;
  const auto to = found ? fixed_elements(*found) : std::nullopt;
  if (!to || to->size() > from.size()) return false;
  const auto first = from.end() - static_cast<std::ptrdiff_t>(to->size());
  return std::equal(to->begin(), to->end(), first,
                    [](int64_t wanted, int64_t own) { return wanted == 1 || wanted == own; });
}

// A constant read with another shape: the same bytes.
bool Importer::view_constant(const GraphNode& node) {
  if (node.inputs.empty() || node.inputs[0].empty() || node.outputs.empty()) return false;
  const auto* fixed = std::get_if<Fixed>(&known(node.inputs[0]));
  if (fixed == nullptr) return false;
  const Ints from(fixed->spec.shape.begin(), fixed->spec.shape.end());
  const auto list = [&](const char* name) -> Ints {
    if (node.inputs.size() < 2 || node.inputs[1].empty())
      return ops::attribute_ints(node.attributes, name, {});
    const auto found = integers(node.inputs[1]);
    const auto values = found ? fixed_elements(*found) : std::nullopt;
    if (!values) refuse(format("its {} must be known, and the same for any batch", name));
    return *values;
  };
  Ints to;
  if (node.op == "Reshape")
    to =
        with_extents(from, list("shape"), ops::attribute_int(node.attributes, "allowzero", 0) != 0);
  else if (node.op == "Squeeze")
    to = squeezed(from, list("axes"));
  else if (node.op == "Unsqueeze")
    to = unsqueezed(from, list("axes"));
  else if (node.op == "Flatten")
    to = flattened(from, ops::attribute_int(node.attributes, "axis", 1));
  else if (node.op == "Expand" && expands_nothing(node, from))
    to = from;
  else
    return false;
  Fixed viewed = *fixed;
  viewed.spec.shape = ops::Shape(to);
  viewed.stored = stored_viewed(*fixed);
  if (viewed.spec.shape.elements() != fixed->spec.shape.elements())
    refuse(format("{} has no shape {}", ops::to_string(fixed->spec.shape),
                  ops::to_string(viewed.spec.shape)));
  set(node.outputs[0], std::move(viewed));
  return true;
}

}  // namespace kerf::partitioner::onnx
