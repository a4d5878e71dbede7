#include "ops/operators/recurrent.h"

#include <algorithm>
#include <cmath>

#include "ops/samples_axis.h"

namespace kerf::ops {
namespace {

using GateKind = GateFunction::Kind;

// How the function is called, and its alpha and beta where nothing is said; how many of those it
// has.
struct GateName {
  const char* name;
  GateKind kind;
  int constants = 0;
  float alpha = 0;
  float beta = 0;
};

constexpr std::array<GateName, 11> kGateNames = {{
    {"Sigmoid", GateKind::kSigmoid},
    {"Tanh", GateKind::kTanh},
    {"Relu", GateKind::kRelu},
    {"Affine", GateKind::kAffine, 2, 1, 0},
    {"LeakyRelu", GateKind::kLeakyRelu, 1, 0.01F},
    {"ThresholdedRelu", GateKind::kThresholdedRelu, 1, 1},
    {"ScaledTanh", GateKind::kScaledTanh, 2, 1, 1},
    {"HardSigmoid", GateKind::kHardSigmoid, 2, 0.2F, 0.5F},
    {"Elu", GateKind::kElu, 1, 1},
    {"Softsign", GateKind::kSoftsign},
    {"Softplus", GateKind::kSoftplus},
}};

std::string_view recurrent_name(Recurrent::Kind kind) {
  return kind == Recurrent::Kind::kRnn ? "RNN" : kind == Recurrent::Kind::kGru ? "GRU" : "LSTM";
}

std::vector<std::string> usual_functions(Recurrent::Kind kind) {
  if (kind == Recurrent::Kind::kRnn) return {"Tanh"};
  if (kind == Recurrent::Kind::kGru) return {"Sigmoid", "Tanh"};
  return {"Sigmoid", "Tanh", "Tanh"};
}

}  // namespace

float GateFunction::operator()(float x) const {
  switch (kind) {
    case Kind::kSigmoid:
      return 1.0F / (1.0F + std::exp(-x));
    case Kind::kTanh:
      return std::tanh(x);
    case Kind::kRelu:
      return x < 0 ? 0 : x;
    case Kind::kAffine:
      return alpha * x + beta;
    case Kind::kLeakyRelu:
      return x < 0 ? alpha * x : x;
    case Kind::kThresholdedRelu:
      return x < alpha ? 0 : x;
    case Kind::kScaledTanh:
      return alpha * std::tanh(beta * x);
    case Kind::kHardSigmoid:
      return std::clamp(alpha * x + beta, 0.0F, 1.0F);
    case Kind::kElu:
      return x < 0 ? alpha * std::expm1(x) : x;
    case Kind::kSoftsign:
      return x / (1 + std::abs(x));
    case Kind::kSoftplus:
      return x > 20 ? x : std::log1p(std::exp(x));
  }
  return x;
}

Recurrent::Recurrent(Kind kind, const NodeFacts& facts)
    : BoundOperator(recurrent_name(kind), facts),
      kind_(kind),
      samples_first_(attribute_int(facts.attributes, "layout", 0) != 0),
      linear_before_reset_(attribute_int(facts.attributes, "linear_before_reset", 0) != 0),
      input_forget_(attribute_int(facts.attributes, "input_forget", 0) != 0),
      clip_(static_cast<float>(attribute_float(facts.attributes, "clip", 0))) {
  const std::string direction = attribute_string(facts.attributes, "direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    throw Error(
        ErrorCode::kUsage,
        format("{}: direction '{}' is none of forward, reverse, bidirectional", name(), direction));
  reverse_ = direction == "reverse";
  if (!(clip_ >= 0))
    throw Error(ErrorCode::kUsage, format("{}: clip {} must not be negative", name(), clip_));
  for (int i = 0; i < static_cast<int>(inputs().size()); ++i)
    if (i != kLengths) want_float32(name(), input(i), "all inputs but sequence_lens");
  const Shape& r = shape(kR);
  hidden_ = attribute_int(facts.attributes, "hidden_size", r.rank() == 3 ? r[2] : 0);
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  check_shapes(directions);
  read_functions(facts, directions);
  find_unusual();
  refuse_gradients();
  set_space();
}

void Recurrent::read_functions(const NodeFacts& facts, int64_t directions) {
  const auto usual = usual_functions(kind_);
  std::vector<std::string> names = attribute_strings(facts.attributes, "activations", {});
  if (names.empty())
    for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), usual.begin(), usual.end());
  if (names.size() != usual.size() * static_cast<size_t>(directions))
    throw Error(ErrorCode::kUsage,
                format("{}: attribute 'activations' must be {} names, not {}", name(),
                       usual.size() * static_cast<size_t>(directions), names.size()));
  auto alphas = attribute_floats(facts.attributes, "activation_alpha", {});
  auto betas = attribute_floats(facts.attributes, "activation_beta", {});
  // Of those that have one, in order.
  const auto next = [](std::vector<double>& list, float otherwise) {
    if (list.empty()) return otherwise;
    const double first = list.front();
    list.erase(list.begin());
    return static_cast<float>(first);
  };
  for (size_t i = 0; i < names.size(); ++i) {
    const auto known = std::find_if(kGateNames.begin(), kGateNames.end(),
                                    [&](const GateName& each) { return names[i] == each.name; });
    if (known == kGateNames.end())
      throw Error(ErrorCode::kUsage, format("{}: activation '{}' is not known", name(), names[i]));
    GateFunction& function = functions_[i / usual.size()][i % usual.size()];
    function.kind = known->kind;
    if (known->constants > 0) function.alpha = next(alphas, known->alpha);
    if (known->constants > 1) function.beta = next(betas, known->beta);
    const bool differentiable =
        names[i] == usual[i % usual.size()] ||
        (kind_ == Kind::kRnn && (names[i] == "Relu" || names[i] == "Sigmoid"));
    if (!differentiable) unusual_ = format("activation {}", names[i]);
  }
}

void Recurrent::find_unusual() {
  if (clip_ > 0) unusual_ = "clip";
  if (input_forget_) unusual_ = "input_forget";
  if (has(kP)) unusual_ = "P (peepholes)";
  if (has(kLengths)) unusual_ = "sequence_lens";
}

void Recurrent::refuse_gradients() const {
  for (int i = 0; i < static_cast<int>(inputs().size()); ++i) {
    if (!has(i)) continue;
    if (input(i).wants_gradient && !unusual_.empty())
      throw Error(
          ErrorCode::kUsage,
          format("{} with {} gives answers but no gradients: leave it out, or freeze it and "
                 "what comes before it",
                 name(), unusual_));
    const bool trained = i >= kW && i <= kB;
    if (trained ? input(i).in_input_gradient() : input(i).in_weight_gradient())
      throw Error(ErrorCode::kUsage, format("{} has a gradient of its input {} only as {}", name(),
                                            i, trained ? "a parameter" : "an activation"));
  }
}

void Recurrent::check_shapes(int64_t directions) const {
  const Shape& x = shape(kX);
  const int64_t h = hidden_;
  const int64_t g = gates();
  bool fits = x.rank() == 3 && h >= 1 && x[2] >= 1 && x[samples_first_ ? 1 : 0] >= 1 &&
              shape(kW) == Shape{directions, g * h, x[2]} &&
              shape(kR) == Shape{directions, g * h, h} &&
              (!has(kB) || shape(kB) == Shape{directions, 2 * g * h}) &&
              (!has(kP) || shape(kP) == Shape{directions, 3 * h});
  const int64_t samples = fits ? x[samples_first_ ? 0 : 1] : 0;
  const Shape state =
      samples_first_ ? Shape{samples, directions, h} : Shape{directions, samples, h};
  for (const int i : {kInitialH, kInitialC}) fits = fits && (!has(i) || shape(i) == state);
  fits = fits && (!has(kLengths) || shape(kLengths) == Shape{samples});
  if (has(kLengths) && input(kLengths).spec.dtype != DType::kInt32)
    throw Error(ErrorCode::kUsage, format("{} wants int32 for sequence_lens, not {}", name(),
                                          to_string(input(kLengths).spec.dtype)));
  if (fits) return;
  std::vector<std::string> shapes;
  for (const Operand& operand : inputs())
    shapes.push_back(operand.present ? to_string(operand.spec.shape) : "none");
  throw Error(ErrorCode::kUsage,
              format("{} with hidden_size {} and {} direction(s) wants X {}, W [D, {}H, I], R [D, "
                     "{}H, H], B [D, {}H], sequence_lens [N], initial states {}, not {}",
                     name(), h, directions, samples_first_ ? "[N, T, I]" : "[T, N, I]", g, g, 2 * g,
                     samples_first_ ? "[N, D, H]" : "[D, N, H]", fmt::join(shapes, ", ")));
}

std::string Recurrent::why_not_unrolled(int64_t steps) const {
  if (!unusual_.empty()) return "a recurrence with " + unusual_;
  if (kind_ == Kind::kGru && !linear_before_reset_)
    return "a GRU whose linear_before_reset is 0: its steps are two each";
  if (steps > kMostUnrolled) return format("more than {} steps", kMostUnrolled);
  return {};
}

void Recurrent::set_space() {
  enum : int { kSamples, kDirections, kTime, kHidden };
  const Shape& x = shape(kX);
  const int64_t steps = x[samples_first_ ? 1 : 0];
  const int64_t samples = x[samples_first_ ? 0 : 1];
  const int64_t directions = shape(kW)[0];
  const std::string why_whole = why_not_unrolled(steps);
  space_.axes = {
      samples_axis(samples),
      {directions > 1 ? AxisKind::kFeature : AxisKind::kOther, "directions", directions},
      {AxisKind::kSpace, "time", steps, 1, false, "each step needs the one before"},
      {why_whole.empty() ? AxisKind::kFeature : AxisKind::kOther, "hidden units", hidden_, 1, false,
       "each step needs every hidden unit of the one before" +
           (why_whole.empty() ? "" : ", and nothing unrolls " + why_whole)}};
  const OperandMap sequence = samples_first_ ? operand_axes({{kSamples}, {kTime}, {}})
                                             : operand_axes({{kTime}, {kSamples}, {}});
  const OperandMap weights = operand_axes({{kDirections}, {}, {}});
  const OperandMap by_direction = operand_axes({{kDirections}, {}});
  const OperandMap state = samples_first_ ? operand_axes({{kSamples}, {kDirections}, {kHidden}})
                                          : operand_axes({{kDirections}, {kSamples}, {kHidden}});
  space_.inputs = {sequence, weights, weights,     by_direction, operand_axes({{kSamples}}),
                   state,    state,   by_direction};
  space_.inputs.resize(inputs().size());
  for (int i = 0; i < static_cast<int>(inputs().size()); ++i)
    if (!has(i)) space_.inputs[static_cast<size_t>(i)] = {};
  const int states = kind_ == Kind::kLstm ? 2 : 1;
  if (samples_first_) {
    outputs_ = {{DType::kFloat32, {samples, steps, directions, hidden_}}};
    outputs_.insert(outputs_.end(), states, {DType::kFloat32, {samples, directions, hidden_}});
    space_.outputs = {operand_axes({{kSamples}, {kTime}, {kDirections}, {kHidden}})};
  } else {
    outputs_ = {{DType::kFloat32, {steps, directions, samples, hidden_}}};
    outputs_.insert(outputs_.end(), states, {DType::kFloat32, {directions, samples, hidden_}});
    space_.outputs = {operand_axes({{kTime}, {kDirections}, {kSamples}, {kHidden}})};
  }
  space_.outputs.insert(space_.outputs.end(), states, state);
}

// Hidden units, over steps, samples and directions.
double Recurrent::cells(const LocalSpecs& local) const {
  const Shape& x = local.inputs[kX].shape;
  return static_cast<double>(local.inputs[kW].shape[0]) * static_cast<double>(x[0]) *
         static_cast<double>(x[1]) * static_cast<double>(hidden_);
}

Cost Recurrent::cost(const LocalSpecs& local) const {
  const double n = cells(local);
  const double g = static_cast<double>(gates());
  const double in = static_cast<double>(local.inputs[kX].shape[2]);
  const double h = static_cast<double>(hidden_);
  const double products = 2 * g * n * (in + h);
  const double weights =
      static_cast<double>(local.inputs[kW].shape.elements() + local.inputs[kR].shape.elements());
  const double x = static_cast<double>(local.inputs[kX].shape.elements());
  return {products + 8 * g * n,
          products + 10 * g * n,
          products + g * n,
          4 * (x + weights + (g + 2) * n),
          4 * (x + weights + (3 * g + 2) * n),
          4 * (x + weights + (g + 2) * n)};
}

BackwardReads Recurrent::backward_reads() const {
  BackwardReads reads;
  const bool weights = handed_wanted();
  for (const int i : {kX, kW, kR, kInitialH, kInitialC}) {
    if (!has(i)) continue;
    const bool of_weights = i == kX || i == kInitialH;
    if (of_weights && weights) reads.inputs_for_weight_gradient.push_back(i);
    if (!of_weights || (i == kInitialH && kind_ == Kind::kGru))
      reads.inputs_for_input_gradient.push_back(i);
  }
  if (weights) reads.outputs_for_weight_gradient = {0};
  if (kind_ == Kind::kGru) reads.outputs_for_input_gradient = {0};
  reads.reserve_for_weight_gradient = weights && kind_ == Kind::kGru && !linear_before_reset_;
  reads.output_gradients_for_weight_gradient = false;
  return reads;
}

bool Recurrent::handed_wanted() const {
  return std::any_of(inputs().begin(), inputs().end(), [](const Operand& operand) {
    return operand.present && operand.in_weight_gradient();
  });
}

size_t Recurrent::reserve_bytes(const LocalSpecs& local) const {
  const int64_t blocks = gates() + (keeps_more() ? 1 : 0);
  return static_cast<size_t>(cells(local)) * static_cast<size_t>(blocks) * sizeof(float);
}

size_t Recurrent::handed_bytes(const LocalSpecs& local) const {
  if (!handed_wanted()) return 0;
  const int64_t blocks = gates() + (linear_before_reset_ ? 1 : 0);
  return static_cast<size_t>(cells(local)) * static_cast<size_t>(blocks) * sizeof(float);
}

OperatorDefinitions define_recurrent() {
  constexpr auto kOptional = FormalOperand::Count::kOptional;
  const auto define = [](Recurrent::Kind kind) {
    OperatorDefinition definition{
        .name = std::string(recurrent_name(kind)),
        .inputs = {{"X"},
                   {"W"},
                   {"R"},
                   {"B", kOptional},
                   {"sequence_lens", kOptional},
                   {"initial_h", kOptional}},
        .outputs = {{"Y"}, {"Y_h"}},
        .attributes = {{"hidden_size"},
                       {"direction", AttributeType::kString},
                       {"layout"},
                       {"clip", AttributeType::kFloat},
                       {"activations", AttributeType::kStrings},
                       {"activation_alpha", AttributeType::kFloats},
                       {"activation_beta", AttributeType::kFloats}},
        .bind = [kind](const NodeFacts& facts) { return std::make_unique<Recurrent>(kind, facts); },
        .first_opset = 7};
    if (kind == Recurrent::Kind::kGru) definition.attributes.push_back({"linear_before_reset"});
    if (kind != Recurrent::Kind::kLstm) return definition;
    definition.inputs.push_back({"initial_c", kOptional});
    definition.inputs.push_back({"P", kOptional});
    definition.outputs.push_back({"Y_c"});
    definition.attributes.push_back({"input_forget"});
    return definition;
  };
  return {define(Recurrent::Kind::kRnn), define(Recurrent::Kind::kGru),
          define(Recurrent::Kind::kLstm)};
}

}  // namespace kerf::ops
