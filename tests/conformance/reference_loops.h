// What references are written with: elements by index, and sums that remember how large their terms
// were.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/conformance/operator_reference.h"

namespace kerf::ops::reference {

using Index = std::vector<int64_t>;

inline int64_t flat(const Index& index, const Shape& shape) {
  int64_t at = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    at = at * shape[axis] + index[static_cast<size_t>(axis)];
  return at;
}

inline double at(const HostTensor& tensor, const Index& index) {
  const auto i = static_cast<size_t>(flat(index, tensor.shape));
  return tensor.floats.empty() ? static_cast<double>(tensor.integers[i]) : double{tensor.floats[i]};
}

// NaN is larger and smaller than any number.
inline double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
inline double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }
inline double largest(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), numbers.front(), larger);
}

// The place in a tensor of shape `own` of what NumPy repeats over element `place` of `output`.
inline size_t repeated_place(const Shape& own, const Shape& output, int64_t place) {
  int64_t from = 0;
  int64_t stride = 1;
  for (int axis = output.rank() - 1; axis >= 0; --axis) {
    const int i = axis - output.rank() + own.rank();
    const int64_t index = place % output[axis];
    place /= output[axis];
    if (i < 0) continue;
    if (own[i] != 1) from += index * stride;
    stride *= own[i];
  }
  return static_cast<size_t>(from);
}

// `index`, of a larger shape, as NumPy broadcasts `tensor` over it.
inline double repeated_at(const HostTensor& tensor, const Index& index) {
  const int rank = tensor.shape.rank();
  Index own(index.end() - rank, index.end());
  for (int axis = 0; axis < rank; ++axis)
    if (tensor.shape[axis] == 1) own[static_cast<size_t>(axis)] = 0;
  return at(tensor, own);
}

// Adds up one element.
class Sum {
 public:
  void add(double term) {
    value_ += term;
    magnitude_ += std::abs(term);
    ++terms_;
  }
  void scale(double factor) {
    value_ *= factor;
    magnitude_ *= std::abs(factor);
  }
  void take_larger(double value) {
    value_ = terms_ == 0 ? value : larger(value_, value);
    ++terms_;
  }
  // A function of the sum, computed in so many roundings more.
  void become(double value, int64_t roundings) {
    value_ = value;
    magnitude_ = std::max(magnitude_, std::abs(value));
    terms_ += roundings;
  }
  double value() const { return value_; }
  double magnitude() const { return magnitude_; }
  int64_t terms() const { return terms_; }

 private:
  double value_ = 0;
  double magnitude_ = 0;
  int64_t terms_ = 0;
};

inline Reference for_each_element(const Shape& output,
                                  const std::function<Sum(const Index&)>& element) {
  Reference reference;
  Index index(static_cast<size_t>(output.rank()), 0);
  for (int64_t i = 0; i < output.elements(); ++i) {
    int64_t left = i;
    for (int axis = output.rank() - 1; axis >= 0; --axis) {
      index[static_cast<size_t>(axis)] = left % output[axis];
      left /= output[axis];
    }
    const Sum sum = element(index);
    reference.values.push_back(sum.value());
    reference.magnitudes.push_back(sum.magnitude());
    reference.terms = std::max(reference.terms, sum.terms());
  }
  return reference;
}

}  // namespace kerf::ops::reference
