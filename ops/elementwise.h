// The family of element-wise functions of one input: one entry each, from which follow the
// definition, the kernels of every kind of device and the cases of the conformance suite.
//
// An entry's derivative is a function of the output where `reads_output`, else of the input; what
// it does not read need not be kept.
#pragma once

#include <cmath>
#include <tuple>

namespace kerf::ops {

template <class Forward, class Derivative>
struct Elementwise {
  const char* name;
  double flops;  // per element
  bool reads_output;
  Forward forward;        // y of x
  Derivative derivative;  // dy/dx of y or x
};
template <class Forward, class Derivative>
Elementwise(const char*, double, bool, Forward, Derivative) -> Elementwise<Forward, Derivative>;

inline constexpr std::tuple kElementwise{
    // NaN stays NaN, so that a diverged run shows.
    Elementwise{"Relu", 1, true, [](float x) { return x < 0 ? 0.0F : x; },
                [](float y) { return y > 0 ? 1.0F : 0.0F; }},
    Elementwise{"Sigmoid", 4, true, [](float x) { return 1.0F / (1.0F + std::exp(-x)); },
                [](float y) { return y * (1.0F - y); }},
    Elementwise{"Tanh", 4, true, [](float x) { return std::tanh(x); },
                [](float y) { return 1.0F - y * y; }},
};

// Calls visit(entry) for each.
template <class Visit>
void for_each_elementwise(const Visit& visit) {
  std::apply([&](const auto&... entry) { (visit(entry), ...); }, kElementwise);
}

}  // namespace kerf::ops
