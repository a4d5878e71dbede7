// Tensors of scalars that remember themselves, by index: what the reference operators are made of.
#pragma once

#include <utility>
#include <vector>

#include "tests/partitioner/reference_operators.h"

namespace kerf::tests::reference {

using Index = std::vector<int64_t>;
using Outputs = std::vector<ScalarTensor>;

inline const Scalar& at(const ScalarTensor& tensor, const Index& index) {
  int64_t flat = 0;
  for (int axis = 0; axis < tensor.shape.rank(); ++axis)
    flat = flat * tensor.shape[axis] + index[static_cast<size_t>(axis)];
  return tensor.elements[static_cast<size_t>(flat)];
}

// `index`, of a larger shape, as NumPy broadcasts `tensor` over it.
inline const Scalar& repeated_at(const ScalarTensor& tensor, const Index& index) {
  const int rank = tensor.shape.rank();
  Index own(index.end() - rank, index.end());
  for (int axis = 0; axis < rank; ++axis)
    if (tensor.shape[axis] == 1) own[static_cast<size_t>(axis)] = 0;
  return at(tensor, own);
}

template <class Visit>
void for_each_index(const ops::Shape& shape, const Visit& visit) {
  Index index(static_cast<size_t>(shape.rank()), 0);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t left = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      index[static_cast<size_t>(axis)] = left % shape[axis];
      left /= shape[axis];
    }
    visit(index);
  }
}

template <class Element>
ScalarTensor made(const ops::Shape& shape, const Element& element) {
  ScalarTensor tensor{shape, {}};
  for_each_index(shape, [&](const Index& index) { tensor.elements.push_back(element(index)); });
  return tensor;
}

inline Outputs one(ScalarTensor tensor) { return {std::move(tensor)}; }

inline int axis_of(const ReferenceCall& call, int64_t otherwise, const ops::Shape& shape) {
  const int64_t axis = attribute_int(call.attributes, "axis", otherwise);
  return static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
}

inline Index with(const Index& index, int axis, int64_t at_axis) {
  Index changed = index;
  changed[static_cast<size_t>(axis)] = at_axis;
  return changed;
}

// ---- what is reduced over an axis (reference_rows.cc)

Outputs softmax(const ReferenceCall& call);
Outputs layer_normalization(const ReferenceCall& call);
Outputs batch_normalization(const ReferenceCall& call);
// Forward, samples first ("layout" 1), without initial states: Y [N, T, 1, H], and the last h and
// c.
Outputs lstm(const ReferenceCall& call);
Outputs sum_loss(const ReferenceCall& call);
Outputs cross_entropy(const ReferenceCall& call);

}  // namespace kerf::tests::reference
