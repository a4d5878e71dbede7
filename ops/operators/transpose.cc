#include "ops/operators/transpose.h"

#include <algorithm>
#include <numeric>

namespace kerf::ops {
namespace {

std::vector<int> perm_of(const NodeFacts& facts) {
  const int rank = facts.inputs[0].spec.shape.rank();
  std::vector<int> reversed(static_cast<size_t>(rank));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  if (!facts.attributes.contains("perm")) return reversed;
  const auto wanted = attribute_ints(facts.attributes, "perm", {});
  if (wanted.size() != reversed.size() ||
      !std::is_permutation(wanted.begin(), wanted.end(), reversed.begin()))
    throw Error(ErrorCode::kUsage,
                format("Transpose of {}: perm [{}] does not name each axis once",
                       to_string(facts.inputs[0].spec.shape), fmt::join(wanted, ", ")));
  return {wanted.begin(), wanted.end()};
}

}  // namespace

Transpose::Transpose(const NodeFacts& facts)
    : Rearranged("Transpose", facts), perm_(perm_of(facts)) {
  std::vector<int64_t> extents;
  std::vector<std::vector<int>> axes;
  for (const int axis : perm_) {
    extents.push_back(shape(0)[axis]);
    axes.push_back({axis});
  }
  outputs_ = {{input(0).spec.dtype, Shape(extents)}};
  space_ = {axes_of_tensor(shape(0)), {same_axes(shape(0).rank())}, {operand_axes(axes)}};
}

OperatorDefinitions define_transpose() {
  return {{.name = "Transpose",
           .inputs = {{"data"}},
           .outputs = {{"transposed"}},
           .attributes = {{"perm", AttributeType::kInts}},
           .bind = bind_as<Transpose>}};
}

}  // namespace kerf::ops
