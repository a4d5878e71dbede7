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
