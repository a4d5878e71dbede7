#include "ops/operators/recurrent_inputs.h"

#include "ops/product_cost.h"
#include "ops/samples_axis.h"

namespace kerf::ops {

RecurrentInputs::RecurrentInputs(const NodeFacts& facts)
    : BoundOperator("RecurrentInputs", facts),
      samples_first_(attribute_int(facts.attributes, "layout", 0) != 0) {
  for (const Operand& operand : inputs()) want_float32(name(), operand, "all inputs");
  const int64_t gates = attribute_int(facts.attributes, "gates", 1);
  const int64_t direction = attribute_int(facts.attributes, "direction", 0);
  const Shape& x = shape(0);
  const Shape& w = shape(1);
  const bool fits = x.rank() == 3 && w.rank() == 3 && w[2] == x[2] && w[2] >= 1 && w[1] >= 1 &&
                    gates >= 1 && w[1] % gates == 0 && direction >= 0 && direction < w[0] &&
                    facts.outputs == x[samples_first_ ? 1 : 0];
  if (!fits)
    throw Error(ErrorCode::kUsage,
                format("RecurrentInputs of direction {} and {} gates wants X {} and W [D, GH, I], "
                       "and an output for each step; not {}, {} and {} outputs",
                       direction, gates, samples_first_ ? "[N, T, I]" : "[T, N, I]", to_string(x),
                       to_string(w), facts.outputs));
  const int64_t samples = x[samples_first_ ? 0 : 1];
  space_.axes = {samples_axis(samples),
                 {AxisKind::kSpace, "time", facts.outputs},
                 {AxisKind::kOther, "direction", 1},
                 {AxisKind::kOther, "gates", gates, 1, false, "a unit needs all of its gates"},
                 {AxisKind::kFeature, "hidden units", w[1] / gates},
                 {AxisKind::kSummed, "inputs", w[2]}};
  OperandAxis one{.axes = {kDirection}};
  if (w[0] > 1) one.segments = {direction, direction + 1};
  const OperandAxis rows{.axes = {kBlocks, kHidden}};
  const OperandAxis by_sample{.axes = {kSamples}};
  space_.inputs = {samples_first_ ? operand_axes({{kSamples}, {kTime}, {kInner}})
                                  : operand_axes({{kTime}, {kSamples}, {kInner}}),
                   {{one, rows, {.axes = {kInner}}}}};
  const Shape given = samples_first_ ? Shape{samples, 1, 1, w[1]} : Shape{1, samples, 1, w[1]};
  outputs_.assign(static_cast<size_t>(facts.outputs), {DType::kFloat32, given});
  for (int64_t t = 0; t < facts.outputs; ++t) {
    const OperandAxis step{.axes = {kTime}, .offset = t};
    const OperandAxis own{.axes = {kDirection}};
    space_.outputs.push_back(samples_first_ ? OperandMap{{by_sample, step, own, rows}}
                                            : OperandMap{{step, by_sample, own, rows}});
  }
}

Cost RecurrentInputs::cost(const LocalSpecs& local) const {
  const Shape& x = local.inputs[0].shape;
  const Shape& w = local.inputs[1].shape;
  const double rows = static_cast<double>(x[0]) * static_cast<double>(x[1]);
  const double y = rows * static_cast<double>(w[1]);
  return product_cost(*this, 2 * y * static_cast<double>(w[2]),
                      4 * (static_cast<double>(x.elements() + w.elements()) + y));
}

OperatorDefinitions define_recurrent_inputs() {
  return {{.name = "RecurrentInputs",
           .inputs = {{"X"}, {"W"}},
           .outputs = {{"steps", FormalOperand::Count::kVariadic}},
           .attributes = {{"gates"}, {"direction"}, {"layout"}},
           .bind = bind_as<RecurrentInputs>}};
}

}  // namespace kerf::ops
