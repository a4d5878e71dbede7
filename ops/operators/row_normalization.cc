#include "ops/operators/row_normalization.h"

namespace kerf::ops {
namespace {

// The axes of X from `axis` on, which are a row, and X with one index of each.
struct Rows {
  Rows(std::string_view op, const NodeFacts& facts)
      : x(facts.inputs[0].spec.shape),
        axis(resolved_axis(op, attribute_int(facts.attributes, "axis", -1), x.rank())),
        row(std::vector<int64_t>(x.begin() + axis, x.end())),
        each(x) {
    if (row.batched() || row.elements() < 1)
      throw Error(ErrorCode::kUsage,
                  format("{} of {} cannot take axes {} and later for a row: {}", op, to_string(x),
                         axis, row.batched() ? "the batch is among them" : "it has no element"));
    for (int i = axis; i < x.rank(); ++i) each[i] = 1;
  }
  OperandMap of_each() const {
    std::vector<std::vector<int>> axes;
    for (int i = 0; i < x.rank(); ++i)
      axes.push_back(i < axis ? std::vector<int>{i} : std::vector<int>{});
    return operand_axes(axes);
  }
  OperandMap of_row() const {
    std::vector<std::vector<int>> axes;
    for (int i = axis; i < x.rank(); ++i) axes.push_back({i});
    return operand_axes(axes);
  }

  Shape x;
  int axis;
  Shape row;
  Shape each;
};

void want_shape(std::string_view op, std::string_view name, const Shape& shape,
                const Shape& wanted) {
  if (!(shape == wanted))
    throw Error(ErrorCode::kUsage, format("{} wants {} of shape {}, not {}", op, name,
                                          to_string(wanted), to_string(shape)));
}

void refuse_as_parameter(std::string_view op, const Operand& operand, std::string_view name) {
  if (operand.in_weight_gradient())
    throw Error(ErrorCode::kUsage,
                format("{} has a gradient of {} only as an activation", op, name));
}

}  // namespace

RowSums::RowSums(const char* name, const NodeFacts& facts)
    : BoundOperator(name, facts), squares_(std::string_view(name) == "RowSquareSum") {
  for (const Operand& operand : inputs()) want_float32(name, operand, "all inputs");
  refuse_as_parameter(name, input(0), "X");
  const Rows rows(name, facts);
  length_ = rows.row.elements();
  space_.axes = axes_of_tensor(rows.x);
  for (int i = rows.axis; i < rows.x.rank(); ++i)
    space_.axes[static_cast<size_t>(i)].kind = AxisKind::kSummed;
  space_.inputs = {same_axes(rows.x.rank())};
  if (inputs().size() > 1) space_.inputs.push_back(has(1) ? rows.of_each() : OperandMap());
  if (has(1)) want_shape(name, "sums", shape(1), rows.each);
  if (has(1)) refuse_as_parameter(name, input(1), "sums");
  outputs_ = {{DType::kFloat32, rows.each}};
  space_.outputs = {rows.of_each()};
}

Cost RowSums::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[0].shape.elements());
  if (!squares_) return {n, 0, 0, 4 * n, 4 * n, 0};
  return {(centred() ? 3 : 2) * n, (centred() ? 4 : 2) * n, 0, 4 * n, 12 * n, 0};
}

BackwardReads RowSums::backward_reads() const {
  BackwardReads reads;
  if (squares_) reads.inputs_for_input_gradient = {0};
  if (centred()) reads.inputs_for_input_gradient.push_back(1);
  return reads;
}

RowNormalization::RowNormalization(const NodeFacts& facts)
    : BoundOperator("RowNormalization", facts),
      epsilon_(static_cast<float>(attribute_float(facts.attributes, "epsilon", 1e-5))) {
  for (const Operand& operand : inputs()) want_float32(name(), operand, "all inputs");
  const Rows rows(name(), facts);
  length_ = rows.row.elements();
  want_shape(name(), "Scale", shape(kScale), rows.row);
  want_shape(name(), "squares", shape(kSquares), rows.each);
  if (has(kB)) want_shape(name(), "B", shape(kB), rows.row);
  if (has(kSums)) want_shape(name(), "sums", shape(kSums), rows.each);
  for (const auto& [number, what] : {std::pair(kX, "X"), {kSquares, "squares"}, {kSums, "sums"}})
    if (has(number)) refuse_as_parameter(name(), input(number), what);
  for (const int number : {kScale, kB})
    if (has(number) && input(number).in_input_gradient())
      throw Error(ErrorCode::kUsage,
                  "RowNormalization has gradients of Scale and B only as parameters");
  space_.axes = axes_of_tensor(rows.x);
  space_.inputs = {same_axes(rows.x.rank()), rows.of_row(), rows.of_each(), rows.of_row(),
                   rows.of_each()};
  for (const int number : {kB, kSums})
    if (!has(number)) space_.inputs[static_cast<size_t>(number)] = {};
  space_.inputs.resize(inputs().size());
  outputs_ = {input(kX).spec};
  space_.outputs = {same_axes(rows.x.rank())};
}

Cost RowNormalization::cost(const LocalSpecs& local) const {
  const double n = static_cast<double>(local.inputs[kX].shape.elements());
  const double row = static_cast<double>(local.inputs[kScale].shape.elements());
  return {4 * n, 9 * n, 2 * row, 8 * n + 8 * row, 16 * n + 8 * row, 16 * row};
}

BackwardReads RowNormalization::backward_reads() const {
  BackwardReads reads;
  reads.inputs_for_input_gradient = {kX, kScale, kSquares};
  if (has(kSums)) reads.inputs_for_input_gradient.push_back(kSums);
  reads.output_gradients_for_weight_gradient = false;
  return reads;
}

size_t RowNormalization::handed_bytes(const LocalSpecs& local) const {
  const bool trained =
      input(kScale).in_weight_gradient() || (has(kB) && input(kB).in_weight_gradient());
  if (!trained) return 0;
  return static_cast<size_t>(local.inputs[kScale].shape.elements()) * 2 * sizeof(float);
}

OperatorDefinitions define_row_normalization() {
  constexpr auto kOptional = FormalOperand::Count::kOptional;
  const auto sums = [](const char* name, std::vector<FormalOperand> inputs, const char* output) {
    OperatorDefinition definition{.name = name, .inputs = std::move(inputs), .outputs = {{output}}};
    definition.attributes = {{"axis"}};
    definition.bind = [=](const NodeFacts& facts) {
      return std::make_unique<RowSums>(name, facts);
    };
    return definition;
  };
  return {sums("RowSum", {{"X"}}, "sums"),
          sums("RowSquareSum", {{"X"}, {"sums", kOptional}}, "squares"),
          {.name = "RowNormalization",
           .inputs = {{"X"}, {"Scale"}, {"squares"}, {"B", kOptional}, {"sums", kOptional}},
           .outputs = {{"Y"}},
           .attributes = {{"axis"}, {"epsilon", AttributeType::kFloat}},
           .bind = bind_as<RowNormalization>}};
}

}  // namespace kerf::ops
