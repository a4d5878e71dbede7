#include "ops/operators/lstm.h"

#include <algorithm>

namespace kerf::ops {
namespace {

enum Input : int { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kP };

// Gates, over steps, samples and directions.
int64_t cells(const LocalSpecs& local, int64_t hidden) {
  const Shape& x = local.inputs[kX].shape;
  return local.inputs[kW].shape[0] * x[0] * x[1] * hidden;
}

bool default_activations(const NodeFacts& facts) {
  const std::vector<std::string> own{"Sigmoid", "Tanh", "Tanh"};
  const auto named = attribute_strings(facts.attributes, "activations", {});
  for (size_t i = 0; i < named.size(); ++i)
    if (named[i] != own[i % own.size()]) return false;
  return named.size() % own.size() == 0;
}

}  // namespace

Lstm::Lstm(const NodeFacts& facts)
    : BoundOperator("LSTM", facts),
      samples_first_(attribute_int(facts.attributes, "layout", 0) != 0) {
  refuse(facts);
  const std::string direction = attribute_string(facts.attributes, "direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    throw Error(
        ErrorCode::kUsage,
        format("LSTM: direction '{}' is none of forward, reverse, bidirectional", direction));
  reverse_ = direction == "reverse";
  const Shape& r = shape(kR);
  hidden_ = attribute_int(facts.attributes, "hidden_size", r.rank() == 3 ? r[2] : 0);
  check_shapes(direction == "bidirectional" ? 2 : 1);
  set_space();
}

void Lstm::refuse(const NodeFacts& facts) const {
  if (has(kLengths) || has(kP))
    throw Error(ErrorCode::kUsage, format("LSTM with input {} is not supported: leave it out",
                                          has(kLengths) ? "sequence_lens" : "P (peepholes)"));
  for (const Operand& operand : inputs()) want_float32("LSTM", operand, "all inputs");
  for (int i = 0; i < static_cast<int>(inputs().size()); ++i) {
    if (!has(i)) continue;
    const bool trained = i >= kW && i <= kB;
    if (trained ? input(i).in_input_gradient() : input(i).in_weight_gradient())
      throw Error(ErrorCode::kUsage, format("LSTM has a gradient of its input {} only as {}", i,
                                            trained ? "a parameter" : "an activation"));
  }
  for (const char* name :
       {"clip", "input_forget", "activations", "activation_alpha", "activation_beta"}) {
    const auto at = facts.attributes.find(name);
    if (at == facts.attributes.end()) continue;
    const bool usual = std::string_view(name) == "activations"
                           ? default_activations(facts)
                           : std::string_view(name) == "input_forget" &&
                                 attribute_int(facts.attributes, name, 0) == 0;
    if (!usual)
      throw Error(ErrorCode::kUsage,
                  format("LSTM with attribute '{}' of its own is not supported", name));
  }
}

void Lstm::check_shapes(int64_t directions) const {
  const Shape& x = shape(kX);
  const int64_t h = hidden_;
  bool fits = x.rank() == 3 && h >= 1 && x[2] >= 1 && x[samples_first_ ? 1 : 0] >= 1 &&
              shape(kW) == Shape{directions, 4 * h, x[2]} &&
              shape(kR) == Shape{directions, 4 * h, h} &&
              (!has(kB) || shape(kB) == Shape{directions, 8 * h});
  const int64_t samples = fits ? x[samples_first_ ? 0 : 1] : 0;
  const Shape state =
      samples_first_ ? Shape{samples, directions, h} : Shape{directions, samples, h};
  for (const int i : {kInitialH, kInitialC}) fits = fits && (!has(i) || shape(i) == state);
  if (fits) return;
  std::vector<std::string> shapes;
  for (const Operand& operand : inputs())
    shapes.push_back(operand.present ? to_string(operand.spec.shape) : "none");
  throw Error(ErrorCode::kUsage,
              format("LSTM with hidden_size {} and {} direction(s) wants X {}, W [D, 4H, I], R [D, "
                     "4H, H], B [D, 8H], initial states {}, not {}",
                     h, directions, samples_first_ ? "[N, T, I]" : "[T, N, I]",
                     samples_first_ ? "[N, D, H]" : "[D, N, H]", fmt::join(shapes, ", ")));
}

void Lstm::set_space() {
  enum : int { kSamples, kDirections, kTime, kHidden };
  const Shape& x = shape(kX);
  const int64_t steps = x[samples_first_ ? 1 : 0];
  const int64_t samples = x[samples_first_ ? 0 : 1];
  const int64_t directions = shape(kW)[0];
  space_.axes = {{AxisKind::kSample, "samples", samples},
                 {AxisKind::kFeature, "directions", directions},
                 {AxisKind::kSpace, "time", steps, 1, false, "each step needs the one before"},
                 {AxisKind::kOther, "hidden units", hidden_, 1, false,
                  "each step needs every hidden unit of the one before"}};
  const OperandMap sequence = samples_first_ ? operand_axes({{kSamples}, {kTime}, {}})
                                             : operand_axes({{kTime}, {kSamples}, {}});
  const OperandMap weights = operand_axes({{kDirections}, {}, {}});
  const OperandMap state = samples_first_ ? operand_axes({{kSamples}, {kDirections}, {kHidden}})
                                          : operand_axes({{kDirections}, {kSamples}, {kHidden}});
  const OperandMap unused;
  space_.inputs = {sequence, weights, weights, operand_axes({{kDirections}, {}}),
                   unused,   state,   state,   unused};
  space_.inputs.resize(inputs().size());
  if (samples_first_) {
    outputs_ = {{DType::kFloat32, {samples, steps, directions, hidden_}}};
    outputs_.insert(outputs_.end(), 2, {DType::kFloat32, {samples, directions, hidden_}});
    space_.outputs = {operand_axes({{kSamples}, {kTime}, {kDirections}, {kHidden}}), state, state};
  } else {
    outputs_ = {{DType::kFloat32, {steps, directions, samples, hidden_}}};
    outputs_.insert(outputs_.end(), 2, {DType::kFloat32, {directions, samples, hidden_}});
    space_.outputs = {operand_axes({{kTime}, {kDirections}, {kSamples}, {kHidden}}), state, state};
  }
}

Cost Lstm::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(cells(local, hidden_));
  const double in = static_cast<double>(local.inputs[kX].shape[2]);
  const double h = static_cast<double>(hidden_);
  const double products = 8 * n * (in + h);
  const double weights =
      static_cast<double>(local.inputs[kW].shape.elements() + local.inputs[kR].shape.elements());
  const double x = static_cast<double>(local.inputs[kX].shape.elements());
  return {products + 30 * n,         products + 40 * n,          products + 4 * n,
          4 * (x + weights + 6 * n), 4 * (x + weights + 14 * n), 4 * (x + weights + 6 * n)};
}

BackwardReads Lstm::backward_reads() const {
  BackwardReads reads;
  for (const int i : {kX, kW, kR, kInitialH, kInitialC}) {
    if (!has(i)) continue;
    const bool of_weights = i == kX || i == kInitialH;
    if (of_weights && handed_wanted()) reads.inputs_for_weight_gradient.push_back(i);
    if (!of_weights) reads.inputs_for_input_gradient.push_back(i);
  }
  if (handed_wanted()) reads.outputs_for_weight_gradient = {0};
  reads.output_gradients_for_weight_gradient = false;
  return reads;
}

bool Lstm::handed_wanted() const {
  return std::any_of(inputs().begin(), inputs().end(), [](const Operand& operand) {
    return operand.present && operand.in_weight_gradient();
  });
}

size_t Lstm::reserve_bytes(const LocalSpecs& local) const {
  return static_cast<size_t>(cells(local, hidden_)) * 5 * sizeof(float);
}

size_t Lstm::handed_bytes(const LocalSpecs& local) const {
  return handed_wanted() ? static_cast<size_t>(cells(local, hidden_)) * 4 * sizeof(float) : 0;
}

OperatorDefinitions define_lstm() {
  constexpr auto kOptional = FormalOperand::Count::kOptional;
  return {{.name = "LSTM",
           .inputs = {{"X"},
                      {"W"},
                      {"R"},
                      {"B", kOptional},
                      {"sequence_lens", kOptional},
                      {"initial_h", kOptional},
                      {"initial_c", kOptional},
                      {"P", kOptional}},
           .outputs = {{"Y"}, {"Y_h"}, {"Y_c"}},
           .attributes = {{"hidden_size"},
                          {"direction", AttributeType::kString},
                          {"layout"},
                          {"clip", AttributeType::kFloat},
                          {"input_forget"},
                          {"activations", AttributeType::kStrings},
                          {"activation_alpha", AttributeType::kFloats},
                          {"activation_beta", AttributeType::kFloats}},
           .bind = bind_as<Lstm>,
           .first_opset = 7}};
}

}  // namespace kerf::ops
