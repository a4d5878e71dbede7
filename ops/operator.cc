#include "ops/operator.h"

#include <algorithm>
#include <utility>

namespace kerf::ops {
namespace {

template <class T>
T attribute_as(const Attributes& attributes, const std::string& name, T otherwise,
               std::string_view type) {
  const auto at = attributes.find(name);
  if (at == attributes.end()) return otherwise;
  if (const T* value = std::get_if<T>(&at->second)) return *value;
  throw Error(ErrorCode::kUsage, format("attribute '{}' must be {}", name, type));
}

}  // namespace

int64_t attribute_int(const Attributes& attributes, const std::string& name, int64_t otherwise) {
  return attribute_as<int64_t>(attributes, name, otherwise, "an integer");
}

double attribute_float(const Attributes& attributes, const std::string& name, double otherwise) {
  return attribute_as<double>(attributes, name, otherwise, "a number with a fraction");
}

std::string attribute_string(const Attributes& attributes, const std::string& name,
                             std::string otherwise) {
  return attribute_as<std::string>(attributes, name, std::move(otherwise), "a string");
}

std::vector<int64_t> attribute_ints(const Attributes& attributes, const std::string& name,
                                    std::vector<int64_t> otherwise) {
  return attribute_as<std::vector<int64_t>>(attributes, name, std::move(otherwise),
                                            "a list of integers");
}

void check_node(const Operator& op, const Attributes& attributes, size_t inputs) {
  const auto most = op.input_names().size();
  const auto least = static_cast<size_t>(op.required_inputs());
  if (inputs < least || inputs > most)
    throw Error(ErrorCode::kUsage,
                least == most
                    ? format("{} takes {} inputs, not {}", op.name(), least, inputs)
                    : format("{} takes {} to {} inputs, not {}", op.name(), least, most, inputs));
  const auto known = op.attribute_names();
  for (const auto& [name, value] : attributes)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(ErrorCode::kUsage,
                  format("{} has no attribute '{}'; it has: {}", op.name(), name,
                         known.empty() ? "none" : format("{}", fmt::join(known, ", "))));
}

void throw_no_kernel(std::string_view op, const runtime::Device& device) {
  throw Error(
      ErrorCode::kUnavailable,
      format("operator {} has no kernel for device {}; run it on device cpu", op, device.name()));
}

SplitRule boxes(std::vector<SplitRule::Input> inputs) {
  SplitRule rule;
  rule.inputs = std::move(inputs);
  return rule;
}

SplitRule gather(int axis, std::string reason) {
  SplitRule rule;
  rule.kind = SplitRule::Kind::kGather;
  rule.axis = axis;
  rule.reason = std::move(reason);
  return rule;
}

SplitRule refuse(std::string reason) {
  SplitRule rule;
  rule.kind = SplitRule::Kind::kRefuse;
  rule.reason = std::move(reason);
  return rule;
}

}  // namespace kerf::ops
