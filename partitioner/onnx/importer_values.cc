#include <algorithm>
#include <utility>

#include "partitioner/onnx/importer.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
const Known& Importer::known(const std::string& name) const {
  const auto at = known_.find(name);
  KERF_CHECK(at != known_.end(), "{}: nothing gave {}", graph_.origin, name);
  return at->second;
}

void Importer::set(const std::string& name, Known value) {
  if (name.empty()) return;
  if (!left_.contains(name)) between_.push_back(name);
  known_[name] = std::move(value);
}

void Importer::release(const GraphNode& node) {
  // Others may read what was turned over, or repeated, as it was.
  const auto is_held = [this](const std::string& name) { return held_.contains(name); };
  for (const std::string& name : between_)
    if (!is_held(name)) known_.erase(name);
  between_.clear();
  for (const std::string& input : node.inputs)
    if (!input.empty() && --left_[input] == 0 && !is_held(input)) known_.erase(input);
}

ops::ValueSpec Importer::spec_of(const std::string& name) const {
  const Known& value = known(name);
  if (const auto* id = std::get_if<ValueId>(&value)) return result_.model.value(*id).spec;
  if (const auto* integers = std::get_if<Integers>(&value))
    return {integers->dtype, ops::Shape(integers->shape)};
  if (const auto* fixed = std::get_if<Fixed>(&value)) return fixed->spec;
  refuse(format("the shape of {} is not known", name));
}

bool Importer::is_constant(const std::string& name) const {
  const Known& value = known(name);
  if (const auto* integers = std::get_if<Integers>(&value))
    return fixed_elements(*integers).has_value();
  return std::holds_alternative<Fixed>(value);
}

std::optional<Integers> Importer::integers(const std::string& name) const {
  const Known& value = known(name);
  if (const auto* integers = std::get_if<Integers>(&value)) return *integers;
  if (const auto* fixed = std::get_if<Fixed>(&value)) return integers_of(*fixed);
  return std::nullopt;
}

ops::TensorLiteral Importer::literal(const std::string& name, size_t most_bytes) const {
  const Known& value = known(name);
  if (const auto* fixed = std::get_if<Fixed>(&value)) return literal_of(*fixed, most_bytes);
  const auto* integers = std::get_if<Integers>(&value);
  const auto found = integers == nullptr ? std::nullopt : literal_of(*integers);
  if (!found) refuse(format("{} depends on how large the batch is", name));
  return *found;
}

bool Importer::is_computed(const GraphNode& node, size_t input) const {
  return input < node.inputs.size() && !node.inputs[input].empty() &&
         std::holds_alternative<ValueId>(known(node.inputs[input]));
}

ValueId Importer::in_model(const std::string& name) {
  if (name.empty()) return -1;
  Known value = known(name);
  if (const auto* id = std::get_if<ValueId>(&value)) return *id;
  if (const auto* integers = std::get_if<Integers>(&value)) {
    auto literal = literal_of(*integers);
    if (!literal)
      refuse(format("{} depends on how large the batch is, and is more than a shape here", name));
    value = fixed_of(name, *std::move(literal));
  }
  const auto* fixed = std::get_if<Fixed>(&value);
  if (fixed == nullptr) refuse(format("{} is not known", name));
  return add_fixed_once(name, *fixed);
}

}  // namespace kerf::partitioner::onnx
