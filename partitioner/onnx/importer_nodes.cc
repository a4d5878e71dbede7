#include <algorithm>
#include <map>
#include <utility>

#include "partitioner/onnx/adapt.h"
#include "partitioner/onnx/importer.h"
#include "partitioner/onnx/own_operators.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::TensorLiteral;

double flops_of(const ops::BoundOperator& op) {
  const ops::Box whole = ops::Box::whole(static_cast<int>(op.space().axes.size()));
  return op.cost(ops::local_specs(op, whole, 1, 1)).forward_flops;
}

}  // namespace

void Importer::add(const GraphNode& node) {
  try {
    if (is_own_operator(node.op)) refuse("ONNX has no such operator");
    if (node.outputs.empty()) refuse("it has no outputs");
    const auto spec_of_operand = [&](size_t input) {
      if (input >= node.inputs.size() || node.inputs[input].empty())
        refuse(format("it has no input {}", input));
      return spec_of(node.inputs[input]);
    };
    for (GraphNode& one : adapted(as_read(node), graph_.opset, spec_of_operand, names_)) {
      // Where nothing says what it meant then, it is known as far as its definition says.
      const bool newest = one.op != node.op || is_adapted(one.op);
      add_newest(std::move(one), newest ? ops::kNewestOpset : graph_.opset);
    }
    for (const std::string& output : node.outputs)
      if (readers_.contains(output) && !output.empty() && !known_.contains(output))
        refuse(format("it gives no output {}", output));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    throw Error(error.code(), error.message() + hint_on_batch(error.message()),
                place_of(graph_, node));
  }
}

// Of an operator that cannot take a shape with a batch, in a file where no axis is called one.
std::string Importer::hint_on_batch(const std::string& complaint) const {
  const auto says = [&](const char* word) { return complaint.find(word) != std::string::npos; };
  const bool about_batch = says("batch") || (says("N") && says("["));
  if (!fixed_batch_ || !about_batch) return {};
  for (const GraphInput& input : graph_.inputs)
    if (!options_.constants.contains(input.name))
      return format(
          "; N is the batch, for which the first axis of every input stands: that of {}, "
          "of {}, too",
          input.name, *fixed_batch_);
  return {};
}

// Where it is not known where the batch goes, a file that names it says so.
std::string Importer::way_out_of_batch() const {
  return fixed_batch_ ? "; export it with a batch that has a name (of PyTorch: dynamic_shapes, or "
                        "dynamic_axes where dynamo is False)"
                      : "";
}

// Without the last outputs that nothing reads, of an operator that has more where it is trained.
GraphNode Importer::as_read(GraphNode node) const {
  const bool more = node.op == "Dropout" || (node.op == "BatchNormalization" && graph_.opset >= 14);
  while (more && node.outputs.size() > 1 && !readers_.contains(node.outputs.back()))
    node.outputs.pop_back();
  return node;
}

// Zeros copy extents, but for a file that has them as extents: then nothing has any element.
void Importer::check_zeros(GraphNode& node) {
  if (ops::attribute_int(node.attributes, "allowzero", 0) == 0 || node.inputs.size() < 2) return;
  const auto shape = integers(node.inputs[1]);
  const bool any = shape && std::find(shape->elements.begin(), shape->elements.end(), Affine{}) !=
                                shape->elements.end();
  if (!any) node.attributes.erase("allowzero");
  if (any && shape_of(node.inputs[0]).batched())
    refuse("its shape has an extent of 0, by allowzero, which no batch has");
}

void Importer::add_newest(GraphNode node, int opset) {
  if (node.op == "Reshape") check_zeros(node);
  if (pass_through(node) || fold_facts(node) || fold_integers(node) || view_constant(node) ||
      fold_places(node) || fold_sequence(node))
    return;
  if (auto reshape = as_reshape(node)) node = std::move(*reshape);
  const ops::OperatorDefinition& definition = ops::find_operator(node.op, opset);
  take_input_attributes(definition, node);
  if (node.op == "Dropout") take_dropout_ratio(node);
  free_constants(node);
  if (!evaluate_constant(node) && !add_tied_product(node)) add_node(std::move(node));
}

bool Importer::evaluate_constant(const GraphNode& node) {
  std::map<std::string, TensorLiteral> literals;  // by name: what is read twice is held once
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    if (!is_constant(input)) return false;
    literals[input] = {};
  }
  if (literals.empty()) return false;
  if (turn_anew(node)) return true;
  size_t read = 0;
  for (const std::string& input : node.inputs)
    if (!input.empty()) read += spec_of(input).bytes(0);
  budget_.take(read, 0);
  for (auto& [name, contents] : literals) contents = literal(name, Budget::kMostAtOnce);
  std::vector<const TensorLiteral*> inputs;
  ops::NodeFacts facts{node.attributes, {}, static_cast<int>(node.outputs.size())};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ops::Operand& operand = facts.inputs.emplace_back();
    operand.present = !node.inputs[i].empty();
    inputs.push_back(operand.present ? &literals[node.inputs[i]] : nullptr);
    if (!operand.present) continue;
    operand.spec = {inputs[i]->dtype, inputs[i]->shape};
    operand.role = Role::kConstant;
  }
  const auto bound = ops::bind_operator(ops::find_operator(node.op), facts);
  size_t given = 0;
  for (const ops::ValueSpec& spec : bound->outputs()) {
    if (spec.shape.batched()) return false;  // repeated for every sample
    elements_in({spec.shape.begin(), spec.shape.end()});
    if (spec.bytes(0) > Budget::kMostAtOnce)
      refuse(format("it gives a constant of {}; {} is the most",
                    human_bytes(static_cast<double>(spec.bytes(0))),
                    human_bytes(static_cast<double>(Budget::kMostAtOnce))));
    given += spec.bytes(0);
  }
  budget_.take(given, flops_of(*bound));
  if (evaluator_ == nullptr) evaluator_ = std::make_unique<Evaluator>();
  std::vector<TensorLiteral> results = evaluator_->run(*bound, inputs, 1);
  for (size_t i = 0; i < node.outputs.size(); ++i)
    set(node.outputs[i], made_of_weight(node, i, fixed_of(node.outputs[i], std::move(results[i]))));
  remember_read(node);
  return true;
}

void Importer::add_node(GraphNode node) {
  std::vector<ValueId> inputs;
  for (const std::string& input : node.inputs) inputs.push_back(in_model(input));
  const NodeId id = result_.model.add_node(node.name, node.op, node.attributes, inputs,
                                           std::max(1, static_cast<int>(node.outputs.size())));
  place_batch(id);
  for (size_t i = 0; i < node.outputs.size(); ++i)
    set(node.outputs[i], result_.model.node(id).outputs[i]);
}

}  // namespace kerf::partitioner::onnx
