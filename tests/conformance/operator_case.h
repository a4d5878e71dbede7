// One small case of an operator for the conformance suite: what to feed it, and what to expect.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/operator.h"

namespace kerf::ops {

// How a case's input is drawn. Finite differences need distance from kinks, hence kApart.
enum class Draw : uint8_t {
  kUniform,   // in [-1, 1)
  kPositive,  // in [0.5, 1.5): a variance, a scale
  kInner,     // in [-0.75, 0.75)
  kAboveOne,  // in [1.5, 2.5)
  kApart,     // a shuffled ladder without 0: no two closer than 0.1, none closer than 0.05 to 0
  kClass,     // integers in [0, classes)
  kFromOne,   // integers in [1, classes]
  kSigned,    // integers in [-classes, classes)
  kHalves,    // k / 2 with integers k in [-8, 8]: exact in every type of floating-point numbers
  kSpread,    // distinct integers: one of each `classes` that follow each other
  kExtreme,   // NaN, infinities, both zeros, large and small numbers; the ends of integers
};

struct CaseInput {
  ValueSpec spec;  // kBatch for the samples
  Role role = Role::kActivation;
  Draw draw = Draw::kUniform;
  int64_t classes = 0;
  bool present = true;
};

// Inputs as cases write them.
CaseInput activation(const Shape& shape, Draw draw = Draw::kUniform);
CaseInput parameter(const Shape& shape, Draw draw = Draw::kUniform);
CaseInput state(const Shape& shape, Draw draw = Draw::kUniform);
CaseInput classes(const Shape& shape, int64_t count);  // labels, or indices from the data
CaseInput numbers(DType dtype, const Shape& shape, Draw draw = Draw::kUniform);  // no gradient
CaseInput integers(DType dtype, const Shape& shape, Draw draw, int64_t limit);
CaseInput absent();

struct OperatorCase {
  std::string name;  // of the case, for the test's name
  std::string op;
  Attributes attributes{};
  std::vector<CaseInput> inputs{};
  int outputs = 1;
  int64_t samples = 3;
  double epsilon = 0.25;                  // of finite differences; any will do for what is linear
  std::vector<std::string> whole_axes{};  // names of the iteration axes that cannot be divided
  // Counted by hand: floating-point operations of forward, I and W for one sample.
  std::vector<double> flops{};
};

// One file each per family; operator_cases() has all of them.
std::vector<OperatorCase> product_cases();
std::vector<OperatorCase> window_cases();
std::vector<OperatorCase> pointwise_cases();
std::vector<OperatorCase> broadcast_cases();
std::vector<OperatorCase> unary_cases();
std::vector<OperatorCase> sequence_cases();
std::vector<OperatorCase> moving_cases();
std::vector<OperatorCase> reduction_cases();
std::vector<OperatorCase> layer_cases();
std::vector<OperatorCase> attention_cases();
std::vector<OperatorCase> recurrent_cases();
std::vector<OperatorCase> operator_cases();
// Those of them of which extreme numbers have one right answer, of such numbers: to be compared
// with a reference, not for gradients.
std::vector<OperatorCase> extreme_cases();
// Cases large enough that kernels use a second thread. Where `same_bits` is false, oneDNN divides
// sums by the number of threads, some on one processor and some on another, and rounds otherwise.
struct ThreadCase {
  OperatorCase scene;
  bool same_bits = true;
};
std::vector<ThreadCase> thread_cases();

// The case with its images' channels last; nothing where the operator cannot have them so.
std::optional<OperatorCase> channels_last(const OperatorCase& scene);

// The operator bound to the case's node. Activations and parameters of floating-point numbers want
// a gradient.
std::shared_ptr<const BoundOperator> bind(const OperatorCase& scene);

}  // namespace kerf::ops
