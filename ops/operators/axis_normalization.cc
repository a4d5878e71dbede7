#include "ops/operators/axis_normalization.h"

namespace kerf::ops {
namespace {

std::string_view normalization_name(AxisNormalization::Kind kind) {
  return kind == AxisNormalization::Kind::kMeanVariance ? "MeanVarianceNormalization"
                                                        : "LpNormalization";
}

}  // namespace

AxisNormalization::AxisNormalization(Kind kind, const NodeFacts& facts)
    : BoundOperator(normalization_name(kind), facts), kind_(kind) {
  want_float32(name(), input(0), "X");
  const Shape& x = shape(0);
  normalised_.resize(static_cast<size_t>(x.rank()));
  space_.axes = axes_of_tensor(x);
  const std::vector<int64_t> axes =
      kind == Kind::kMeanVariance
          ? attribute_ints(facts.attributes, "axes", {0, 2, 3})
          : std::vector<int64_t>{attribute_int(facts.attributes, "axis", -1)};
  for (const int64_t said : axes) {
    const int axis = resolved_axis(name(), said, x.rank());
    if (x[axis] < 0)
      throw Error(ErrorCode::kUsage,
                  format("{} of {} over axis {}, the batch, of which a step has several "
                         "micro-batches: name other axes",
                         name(), to_string(x), axis));
    normalised_[static_cast<size_t>(axis)] = true;
    space_.axes[static_cast<size_t>(axis)].undivided = "its norm needs all of it";
  }
  space_.inputs = {same_axes(x.rank())};
  space_.outputs = {same_axes(x.rank())};
  outputs_ = {input(0).spec};
}

Cost AxisNormalization::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  return {5 * n, 8 * n, 0, 8 * n, 12 * n, 0};
}

BackwardReads AxisNormalization::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {0};
  return reads;
}

OperatorDefinitions define_axis_normalization() {
  return {{.name = "LpNormalization",
           .inputs = {{"input"}},
           .outputs = {{"output"}},
           .attributes = {{"axis"}, {"p"}},
           .bind = [](const NodeFacts& facts) -> std::unique_ptr<const BoundOperator> {
             const int64_t p = attribute_int(facts.attributes, "p", 2);
             if (p != 1 && p != 2)
               throw Error(ErrorCode::kUsage,
                           format("LpNormalization: attribute 'p' is 1 or 2, not {}", p));
             return std::make_unique<AxisNormalization>(
                 p == 1 ? AxisNormalization::Kind::kAbsolute : AxisNormalization::Kind::kEuclidean,
                 facts);
           }},
          {.name = "MeanVarianceNormalization",
           .inputs = {{"X"}},
           .outputs = {{"Y"}},
           .attributes = {{"axes", AttributeType::kInts}},
           .bind =
               [](const NodeFacts& facts) {
                 return std::make_unique<AxisNormalization>(AxisNormalization::Kind::kMeanVariance,
                                                            facts);
               },
           .first_opset = 9}};
}

}  // namespace kerf::ops
