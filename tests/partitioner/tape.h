// Plain arithmetic in float64 that remembers itself, so that gradients follow from forward loops
// alone (reverse-mode differentiation: Wengert 1964; Griewank and Walther, "Evaluating
// derivatives", 2008). What Kerf's gradients are compared with has no gradient of its own to be
// wrong. A tape outlives its scalars; one thread.
#pragma once

#include <cmath>
#include <vector>

namespace kerf::tests {

class Tape {
 public:
  struct Term {
    int of;  // entry; -1: a constant
    double derivative;
  };
  int add(const Term& left = {-1, 0}, const Term& right = {-1, 0}) {
    entries_.push_back({left, right});
    return static_cast<int>(entries_.size()) - 1;
  }
  // Of entry `of`, by each.
  std::vector<double> gradients(int of) const {
    std::vector<double> gradients(entries_.size());
    gradients[static_cast<size_t>(of)] = 1;
    for (size_t i = entries_.size(); i-- > 0;)
      for (const Term& term : {entries_[i].left, entries_[i].right})
        if (term.of >= 0) gradients[static_cast<size_t>(term.of)] += term.derivative * gradients[i];
    return gradients;
  }

 private:
  struct Entry {
    Term left, right;
  };
  std::vector<Entry> entries_;
};

class Scalar {
 public:
  Scalar(double value = 0) : value_(value) {}  // a constant
  Scalar(Tape& tape, double value) : tape_(&tape), at_(tape.add()), value_(value) {}
  double value() const { return value_; }
  int at() const { return at_; }  // its entry

  // A function of two numbers, with its derivatives.
  static Scalar of(double value, const Scalar& a, double by_a, const Scalar& b = {},
                   double by_b = 0) {
    Tape* tape = a.tape_ != nullptr ? a.tape_ : b.tape_;
    if (tape == nullptr) return {value};
    Scalar result(value);
    result.tape_ = tape;
    result.at_ = tape->add({a.at_, by_a}, {b.at_, by_b});
    return result;
  }

 private:
  Tape* tape_ = nullptr;
  int at_ = -1;
  double value_ = 0;
};

inline Scalar operator+(const Scalar& a, const Scalar& b) {
  return Scalar::of(a.value() + b.value(), a, 1, b, 1);
}
inline Scalar operator-(const Scalar& a, const Scalar& b) {
  return Scalar::of(a.value() - b.value(), a, 1, b, -1);
}
inline Scalar operator*(const Scalar& a, const Scalar& b) {
  return Scalar::of(a.value() * b.value(), a, b.value(), b, a.value());
}
inline Scalar operator/(const Scalar& a, const Scalar& b) {
  const double value = a.value() / b.value();
  return Scalar::of(value, a, 1 / b.value(), b, -value / b.value());
}
inline Scalar exp(const Scalar& a) {
  const double value = std::exp(a.value());
  return Scalar::of(value, a, value);
}
inline Scalar log(const Scalar& a) { return Scalar::of(std::log(a.value()), a, 1 / a.value()); }
inline Scalar sqrt(const Scalar& a) {
  const double value = std::sqrt(a.value());
  return Scalar::of(value, a, 0.5 / value);
}
inline Scalar tanh(const Scalar& a) {
  const double value = std::tanh(a.value());
  return Scalar::of(value, a, 1 - value * value);
}
inline Scalar sigmoid(const Scalar& a) { return 1 / (1 + exp(0 - a)); }
// 0 at 0, from either side.
inline Scalar relu(const Scalar& a) { return a.value() > 0 ? a : Scalar(0); }

}  // namespace kerf::tests
