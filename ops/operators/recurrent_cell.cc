#include "ops/operators/recurrent_cell.h"

#include <algorithm>

#include "ops/samples_axis.h"

namespace kerf::ops {
namespace {

using CellKind = Recurrent::Kind;

CellKind cell_kind_of(const NodeFacts& facts) {
  const std::string cell = attribute_string(facts.attributes, "cell", "LSTM");
  if (cell == "RNN") return CellKind::kRnn;
  if (cell == "GRU") return CellKind::kGru;
  if (cell == "LSTM") return CellKind::kLstm;
  throw Error(ErrorCode::kUsage,
              format("RecurrentCell: cell '{}' is none of RNN, GRU, LSTM", cell));
}

GateFunction::Kind cell_activation(const NodeFacts& facts, CellKind kind) {
  const std::string name = attribute_string(facts.attributes, "activation", "Tanh");
  if (name == "Tanh") return GateFunction::Kind::kTanh;
  if (kind == CellKind::kRnn && name == "Relu") return GateFunction::Kind::kRelu;
  if (kind == CellKind::kRnn && name == "Sigmoid") return GateFunction::Kind::kSigmoid;
  throw Error(ErrorCode::kUsage,
              format("RecurrentCell: activation '{}' is none of Tanh and, of an RNN, Relu and "
                     "Sigmoid",
                     name));
}

}  // namespace

RecurrentCell::RecurrentCell(const NodeFacts& facts)
    : BoundOperator("RecurrentCell", facts),
      kind_(cell_kind_of(facts)),
      gates_(kind_ == CellKind::kRnn   ? 1
             : kind_ == CellKind::kGru ? 3
                                       : 4),
      activation_(cell_activation(facts, kind_)) {
  const bool samples_first = attribute_int(facts.attributes, "layout", 0) != 0;
  const int64_t direction = attribute_int(facts.attributes, "direction", 0);
  if (shape(kR).rank() == 3) hidden_ = shape(kR)[2];
  check_operands(samples_first, direction);
  for (int i = 0; i < static_cast<int>(inputs().size()); ++i) {
    const bool trained = i == kR || i == kB;
    if (has(i) && (trained ? input(i).in_input_gradient() : input(i).in_weight_gradient()))
      throw Error(ErrorCode::kUsage, format("RecurrentCell has a gradient of its input {} only as "
                                            "{}",
                                            i, trained ? "a parameter" : "an activation"));
  }
  set_space(samples_first, direction);
}

void RecurrentCell::check_operands(bool samples_first, int64_t direction) const {
  for (const Operand& operand : inputs())
    if (operand.present) want_float32(name(), operand, "all inputs");
  const Shape& gates = shape(kGates);
  const int64_t directions = shape(kR).rank() == 3 ? shape(kR)[0] : 0;
  const int64_t h = hidden_;
  bool fits = gates.rank() == 4 && h >= 1 && directions >= 1 && directions <= 2 && direction >= 0 &&
              direction < directions;
  const int64_t samples = fits ? gates[samples_first ? 0 : 1] : 0;
  const auto shaped = [&](const Shape& first, const Shape& second) {
    return samples_first ? first : second;
  };
  fits = fits && gates == shaped({samples, 1, 1, gates_ * h}, {1, samples, 1, gates_ * h}) &&
         shape(kR) == Shape{directions, gates_ * h, h} &&
         (!has(kB) || shape(kB) == Shape{directions, 2 * gates_ * h}) &&
         (!has(kC) || kind_ == CellKind::kLstm);
  for (const int i : {kH, kC})
    fits = fits && (!has(i) || shape(i) == shaped({samples, 1, 1, h}, {1, 1, samples, h}) ||
                    shape(i) == shaped({samples, directions, h}, {directions, samples, h}));
  if (fits) return;
  std::vector<std::string> shapes;
  for (const Operand& operand : inputs())
    shapes.push_back(operand.present ? to_string(operand.spec.shape) : "none");
  throw Error(
      ErrorCode::kUsage,
      format("RecurrentCell of direction {} wants gates {}, R [D, {}H, H], B [D, {}H] and "
             "states {}, c of an LSTM only; not {}",
             direction, samples_first ? "[N, 1, 1, GH]" : "[1, N, 1, GH]", gates_, 2 * gates_,
             samples_first ? "[N, 1, 1, H] or [N, D, H]"
                           : "[1, 1, N, H] or "
                             "[D, N, H]",
             fmt::join(shapes, ", ")));
}

void RecurrentCell::set_space(bool samples_first, int64_t direction) {
  const int64_t samples = shape(kGates)[samples_first ? 0 : 1];
  const int64_t directions = shape(kR)[0];
  space_.axes = {samples_axis(samples),
                 {AxisKind::kOther, "direction", 1},
                 {AxisKind::kOther, "biases", 2, 1, false, "a cell adds both biases of its gates"},
                 {AxisKind::kOther, "gates", gates_, 1, false, "a unit needs all of its gates"},
                 {AxisKind::kFeature, "hidden units", hidden_}};
  // The one direction of several.
  OperandAxis one{.axes = {kDirection}};
  if (directions > 1) one.segments = {direction, direction + 1};
  const OperandAxis own{.axes = {kDirection}};
  const OperandAxis by_sample{.axes = {kSamples}};
  const OperandAxis rows{.axes = {kBlocks, kHidden}};
  const auto state = [&](const Shape& of, const OperandAxis& units) {
    const bool sequence = of.rank() == 3;
    if (sequence)
      return samples_first ? OperandMap{{by_sample, one, units}}
                           : OperandMap{{one, by_sample, units}};
    return samples_first ? OperandMap{{by_sample, {}, own, units}}
                         : OperandMap{{{}, own, by_sample, units}};
  };
  const OperandAxis units{.axes = {kHidden}};
  space_.inputs = {
      samples_first ? OperandMap{{by_sample, {}, own, rows}}
                    : OperandMap{{{}, by_sample, own, rows}},
      {{one, rows, {}}},
      has(kB) ? OperandMap{{one, {.axes = {kHalves, kBlocks, kHidden}}}} : OperandMap{},
      has(kH) ? state(shape(kH), {}) : OperandMap{},
      has(kC) ? state(shape(kC), units) : OperandMap{}};
  space_.inputs.resize(inputs().size());
  const Shape given = samples_first ? Shape{samples, 1, 1, hidden_} : Shape{1, 1, samples, hidden_};
  const size_t states = kind_ == CellKind::kLstm ? 2 : 1;
  outputs_.assign(states, {DType::kFloat32, given});
  space_.outputs.assign(states, state(given, units));
}

Cost RecurrentCell::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.outputs[0].shape.elements());
  const double g = static_cast<double>(gates_);
  const double products = has(kH) ? 2 * g * n * static_cast<double>(hidden_) : 0;
  const double r = static_cast<double>(local.inputs[kR].shape.elements());
  const double weights = input(kR).in_weight_gradient() ? 1 : 0;
  return {products + 8 * g * n,  products + 10 * g * n,     weights * (products + g * n),
          4 * (r + (g + 2) * n), 4 * (r + (3 * g + 2) * n), weights * 4 * (2 * r + (g + 2) * n)};
}

BackwardReads RecurrentCell::backward_reads() const {
  BackwardReads reads;
  if (has(kH)) {
    if (input(kH).in_input_gradient()) reads.inputs_for_input_gradient.push_back(kR);
    if (kind_ == CellKind::kGru) reads.inputs_for_input_gradient.push_back(kH);
    if (input(kR).in_weight_gradient()) reads.inputs_for_weight_gradient.push_back(kH);
  }
  if (has(kC)) reads.inputs_for_input_gradient.push_back(kC);
  if (kind_ == CellKind::kLstm) reads.outputs_for_input_gradient = {1};
  reads.output_gradients_for_weight_gradient = false;
  return reads;
}

size_t RecurrentCell::reserve_bytes(const LocalSpecs& local) const {
  const int64_t blocks = gates_ + (kind_ == CellKind::kGru ? 1 : 0);
  return static_cast<size_t>(local.outputs[0].shape.elements() * blocks) * sizeof(float);
}

size_t RecurrentCell::handed_bytes(const LocalSpecs& local) const {
  const bool wanted = std::any_of(inputs().begin(), inputs().end(), [](const Operand& operand) {
    return operand.present && operand.in_weight_gradient();
  });
  const int64_t blocks = wanted ? gates_ * (kind_ == CellKind::kGru ? 2 : 1) : 0;
  return static_cast<size_t>(local.outputs[0].shape.elements() * blocks) * sizeof(float);
}

OperatorDefinitions define_recurrent_cell() {
  constexpr auto kOptional = FormalOperand::Count::kOptional;
  return {{.name = "RecurrentCell",
           .inputs = {{"gates"}, {"R"}, {"B", kOptional}, {"h", kOptional}, {"c", kOptional}},
           .outputs = {{"h"}, {"c"}},
           .attributes = {{"cell", AttributeType::kString},
                          {"activation", AttributeType::kString},
                          {"direction"},
                          {"layout"}},
           .bind = bind_as<RecurrentCell>}};
}

}  // namespace kerf::ops
