// SumLoss (Kerf's own): a loss that is a sum, weighted if asked.
//
//   x of any shape   weights of x's shape or repeated over it, optional   loss: a scalar
//
//   loss = sum of x * weights / normaliser
//
// The normaliser is the whole step's, so that micro-batches and shares weigh what they should.
// Iterations: the axes of x, all of which divide. Weights come from the data or are constant; they
// have no gradient.
#include "ops/operator.h"

namespace kerf::ops {
namespace {

bool weighs(const Shape& weights, const Shape& x) {
  const int shift = x.rank() - weights.rank();
  if (shift < 0) return false;
  for (int i = 0; i < weights.rank(); ++i)
    if (weights[i] != x[i + shift] && weights[i] != 1) return false;
  return true;
}

class SumLoss final : public BoundOperator {
 public:
  explicit SumLoss(const NodeFacts& facts) : BoundOperator("SumLoss", facts) {
    want_float32("SumLoss", input(0), "x");
    const Shape& x = shape(0);
    outputs_ = {{DType::kFloat32, Shape{}}};
    space_ = {axes_of_tensor(x), {same_axes(x.rank())}, {operand_axes({})}};
    if (inputs().size() < 2) return;
    if (!has(1)) {
      space_.inputs.emplace_back();
      return;
    }
    want_float32("SumLoss", input(1), "weights");
    if (!weighs(shape(1), x))
      throw Error(ErrorCode::kUsage,
                  format("SumLoss cannot weigh {} by {}", to_string(x), to_string(shape(1))));
    space_.inputs.push_back(broadcast_axes(shape(1), x));
    if (input(1).wants_gradient)
      throw Error(
          ErrorCode::kUsage,
          "SumLoss has no gradient of its weights: they come from the data or are constant");
  }

  Cost cost(const LocalSpecs& local) const override {
    const double n = static_cast<double>(local.inputs[0].shape.elements());
    const double weights = has(1) ? static_cast<double>(local.inputs[1].shape.elements()) : 0;
    return {2 * n, n, 0, 4 * (n + weights), 4 * (n + weights), 0};
  }
  BackwardReads backward_reads() const override {
    BackwardReads reads;
    if (has(1)) reads.inputs_for_input_gradient = {1};
    return reads;
  }
  bool is_loss() const override { return true; }
};

}  // namespace

OperatorDefinitions define_sum_loss() {
  return {{.name = "SumLoss",
           .inputs = {{"x"}, {"weights", FormalOperand::Count::kOptional}},
           .outputs = {{"loss"}},
           .bind = bind_as<SumLoss>}};
}

}  // namespace kerf::ops
