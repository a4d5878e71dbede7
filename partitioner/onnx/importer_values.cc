#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "ops/name_pattern.h"
#include "partitioner/onnx/importer.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;

constexpr size_t kMostConstant = size_t{1} << 20;  // bytes that a plan and every part may repeat
constexpr size_t kMostMask = size_t{64} << 20;

// What is added to scores so that some count no more: an infinity, or a large negative number.
bool is_mask(const Fixed& fixed) {
  if (fixed.contents == nullptr || fixed.spec.bytes(0) > kMostMask) return false;
  const ops::TensorLiteral literal = literal_of(fixed, kMostMask);
  for (size_t at = 0; at < literal.bytes.size(); at += sizeof(float)) {
    float number = 0;
    std::memcpy(&number, literal.bytes.data() + at, sizeof(float));
    if (!std::isfinite(number) || number <= -1e4F) return true;
  }
  return false;
}

}  // namespace

const Known& Importer::known(const std::string& name) const {
  const auto at = known_.find(name);
  KERF_CHECK(at != known_.end(), "{}: nothing gave {}", graph_.origin, name);
  return at->second;
}

void Importer::set(const std::string& name, Known value) {
  if (!name.empty()) known_[name] = std::move(value);
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
  const auto found = literal_of(std::get<Integers>(value));
  if (!found) refuse(format("{} depends on how large the batch is", name));
  return *found;
}

bool Importer::fits(const Fixed& fixed, const std::vector<std::string>& patterns) {
  bool any = false;
  for (const std::string& pattern : patterns) {
    const bool one = ops::fits_pattern(fixed.name, pattern) ||
                     (fixed.stored != nullptr &&
                      std::any_of(fixed.stored->tensors.begin(), fixed.stored->tensors.end(),
                                  [&](const StoredTensor& each) {
                                    return ops::fits_pattern(each.name, pattern);
                                  }));
    if (one) fitting_.insert(pattern);
    any = any || one;
  }
  return any;
}

bool Importer::is_trained(const std::string& name, const Fixed& fixed) {
  const bool frozen = fits(fixed, options_.freeze);
  const bool asked = fits(fixed, options_.train);
  if (fixed.spec.dtype != DType::kFloat32 || states_.contains(name) || frozen) return false;
  if (asked) return true;
  const bool placed = weights_.contains(name) || weights_.contains(fixed.name);
  return placed && fixed.spec.shape.rank() > 0 && fixed.spec.shape.elements() > 1 &&
         !is_mask(fixed);
}

ValueId Importer::add_fixed(const std::string& name, const Fixed& fixed) {
  const bool trained = is_trained(name, fixed);
  // What a file of weights would have under this name is no constant of the model.
  const bool stored = graph_.initializers.contains(fixed.name) &&
                      fixed.spec.dtype == DType::kFloat32 && fixed.spec.shape.elements() > 1;
  if (!trained && !stored && fixed.spec.bytes(0) <= kMostConstant)
    return result_.model.add_constant(fixed.name, literal_of(fixed, kMostConstant));
  const bool state = states_.contains(name);
  const ValueId id = result_.model.add_parameter(fixed.name, fixed.spec, fixed.initializer,
                                                 state     ? Role::kState
                                                 : trained ? Role::kParameter
                                                           : Role::kFrozen);
  if (fixed.contents != nullptr) result_.model.set_contents(id, fixed.contents);
  result_.model.set_stored(id, fixed.stored);
  if (fixed.stored != nullptr && fixed.stored->tensors[0].name != fixed.name)
    note(format("{} is {} in files of weights", fixed.name, fixed.stored->tensors[0].name));
  return id;
}

ValueId Importer::in_model(const std::string& name) {
  if (name.empty()) return -1;
  Known value = known(name);
  if (const auto* id = std::get_if<ValueId>(&value)) return *id;
  if (const auto* integers = std::get_if<Integers>(&value)) {
    const auto literal = literal_of(*integers);
    if (!literal)
      refuse(format("{} depends on how large the batch is, and is more than a shape here", name));
    value =
        Fixed{name, {literal->dtype, literal->shape}, contents_of(literal->bytes, literal->dtype)};
  }
  const auto* fixed = std::get_if<Fixed>(&value);
  if (fixed == nullptr) refuse(format("{} is not known", name));
  const auto found = in_model_.find(fixed->name);
  if (found == in_model_.end()) return in_model_[fixed->name] = add_fixed(name, *fixed);
  const Value& there = result_.model.value(found->second);
  if (there.spec == fixed->spec) return found->second;
  if (there.role == Role::kParameter)
    refuse(format("{} is read in two shapes, {} and {}, and trained: freeze it", fixed->name,
                  ops::to_string(there.spec.shape), ops::to_string(fixed->spec.shape)));
  Fixed again = *fixed;
  again.name = format("{} as {}", fixed->name, name);
  return in_model_[again.name] = add_fixed(name, again);
}

}  // namespace kerf::partitioner::onnx
