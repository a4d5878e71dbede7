// An attribute that picks one of the entries of a family that have an operator's name.
#pragma once

#include <string_view>

#include "ops/operator.h"

namespace kerf::ops {

struct Choice {
  std::string_view attribute = {};  // empty: there is one entry of this name
  AttributeType type = AttributeType::kString;
  std::string_view value = {};  // numbers as text
  bool otherwise = false;       // where the node has no such attribute
};

inline bool chosen(const Choice& choice, const Attributes& attributes) {
  if (choice.attribute.empty()) return true;
  const std::string name(choice.attribute);
  if (!attributes.contains(name)) return choice.otherwise;
  if (choice.type == AttributeType::kInt)
    return format("{}", attribute_int(attributes, name, 0)) == choice.value;
  return attribute_string(attributes, name, "") == choice.value;
}

}  // namespace kerf::ops
