#include "ops/attributes.h"

#include <array>
#include <utility>

namespace kerf::ops {
namespace {

constexpr std::array<std::string_view, 7> kTypeNames = {
    "an integer",        "a number with a fraction", "a string", "a list of integers",
    "a list of numbers", "a list of strings",        "a tensor"};

template <class T, AttributeType kType>
T attribute_as(const Attributes& attributes, const std::string& name, T otherwise) {
  const auto at = attributes.find(name);
  if (at == attributes.end()) return otherwise;
  if (const T* value = std::get_if<T>(&at->second)) return *value;
  throw Error(ErrorCode::kUsage, format("attribute '{}' must be {}", name, to_string(kType)));
}

}  // namespace

std::string_view to_string(AttributeType type) { return kTypeNames[static_cast<size_t>(type)]; }

int64_t attribute_int(const Attributes& attributes, const std::string& name, int64_t otherwise) {
  return attribute_as<int64_t, AttributeType::kInt>(attributes, name, otherwise);
}

double attribute_float(const Attributes& attributes, const std::string& name, double otherwise) {
  return attribute_as<double, AttributeType::kFloat>(attributes, name, otherwise);
}

std::string attribute_string(const Attributes& attributes, const std::string& name,
                             std::string otherwise) {
  return attribute_as<std::string, AttributeType::kString>(attributes, name, std::move(otherwise));
}

std::vector<int64_t> attribute_ints(const Attributes& attributes, const std::string& name,
                                    std::vector<int64_t> otherwise) {
  return attribute_as<std::vector<int64_t>, AttributeType::kInts>(attributes, name,
                                                                  std::move(otherwise));
}

std::vector<double> attribute_floats(const Attributes& attributes, const std::string& name,
                                     std::vector<double> otherwise) {
  return attribute_as<std::vector<double>, AttributeType::kFloats>(attributes, name,
                                                                   std::move(otherwise));
}

std::vector<std::string> attribute_strings(const Attributes& attributes, const std::string& name,
                                           std::vector<std::string> otherwise) {
  return attribute_as<std::vector<std::string>, AttributeType::kStrings>(attributes, name,
                                                                         std::move(otherwise));
}

}  // namespace kerf::ops
