// Layer normalisation over divided features, and that by mean squares (RMSNormalization):
//
//   X --RowSum--> sums [a..., 1...]                   partial sums over the features
//   X, sums --RowSquareSum--> squares [a..., 1...]    likewise: the second round is centred
//   X, Scale, squares, B, sums --RowNormalization--> Y
//
// A number of a row travels each round; features, Scale and B stay where they are. Squares alone
// need one round.
#include "partitioner/rewrite.h"

namespace kerf::partitioner {
namespace {

using ops::Layout;

ValueId add_piece(const std::string& name, const std::string& op, const ops::Attributes& attributes,
                  const std::vector<ValueId>& inputs, Model& to) {
  return to.node(to.add_node(name, op, attributes, inputs)).outputs[0];
}

// The axis and, of what divides by the deviation, the epsilon.
ops::Attributes attributes_of(const Node& node, bool epsilon) {
  ops::Attributes some;
  for (const char* name : {"axis", "epsilon"})
    if (const auto found = node.attributes.find(name);
        found != node.attributes.end() && (epsilon || found->first == "axis"))
      some.insert(*found);
  return some;
}

void want_no_numbers(const std::vector<int64_t>& numbers) {
  if (!numbers.empty()) throw Error(ErrorCode::kUsage, "its rewrite has no numbers");
}

std::vector<ValueId> replace_layer_norm(const Node& node, const std::vector<ValueId>& inputs,
                                        const std::vector<int64_t>& numbers, Model& to) {
  want_no_numbers(numbers);
  const ops::Attributes axis = attributes_of(node, false);
  const ValueId sums = add_piece(node.name + ".sums", "RowSum", axis, {inputs[0]}, to);
  const ValueId squares =
      add_piece(node.name + ".squares", "RowSquareSum", axis, {inputs[0], sums}, to);
  const ValueId bias = inputs.size() > 2 ? inputs[2] : -1;
  return {add_piece(node.name, "RowNormalization", attributes_of(node, true),
                    {inputs[0], inputs[1], squares, bias, sums}, to)};
}

std::vector<ValueId> replace_rms_norm(const Node& node, const std::vector<ValueId>& inputs,
                                      const std::vector<int64_t>& numbers, Model& to) {
  want_no_numbers(numbers);
  const ValueId squares = add_piece(node.name + ".squares", "RowSquareSum",
                                    attributes_of(node, false), {inputs[0]}, to);
  return {add_piece(node.name, "RowNormalization", attributes_of(node, true),
                    {inputs[0], inputs[1], squares}, to)};
}

DividedPieces divide_layer_norm(const Node& node, const std::vector<int64_t>& /*numbers*/,
                                const Layout& division, int64_t /*largest*/) {
  return {
      {node.name + ".sums", division}, {node.name + ".squares", division}, {node.name, division}};
}

DividedPieces divide_rms_norm(const Node& node, const std::vector<int64_t>& /*numbers*/,
                              const Layout& division, int64_t /*largest*/) {
  return {{node.name + ".squares", division}, {node.name, division}};
}

RewriteRow row_of(std::string_view name, std::string_view help, std::string_view op) {
  RewriteRow row;
  row.name = name;
  row.help = help;
  row.op = op;
  row.divides = [](const ops::IterationAxis& axis) { return !axis.undivided.empty(); };
  row.follows = false;
  row.numbers = [](const Node&, const Layout&, int64_t) { return std::vector<int64_t>{}; };
  row.exchanged = 2;
  // The mean and the deviation of a row, as outputs, are nobody's pieces.
  row.takes = [](const Node& node) { return node.outputs.size() == 1; };
  return row;
}

}  // namespace

RewriteRow split_layer_norm() {
  RewriteRow row = row_of("split-layer-norm",
                          "layer normalisation divided by features: two rounds of sums, the second "
                          "centred",
                          "LayerNormalization");
  row.replace = replace_layer_norm;
  row.divide = divide_layer_norm;
  return row;
}

RewriteRow split_rms_norm() {
  RewriteRow row =
      row_of("split-rms-norm", "normalisation by mean squares divided by features: a round of sums",
             "RMSNormalization");
  row.replace = replace_rms_norm;
  row.divide = divide_rms_norm;
  return row;
}

}  // namespace kerf::partitioner
