#include <algorithm>
#include <utility>

#include "partitioner/onnx/adapt.h"
#include "partitioner/onnx/importer.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::TensorLiteral;

constexpr size_t kMostEvaluated = size_t{256} << 20;  // bytes of a constant that is computed

}  // namespace

void Importer::add(const GraphNode& node) {
  try {
    const auto spec_of_operand = [&](size_t input) {
      if (input >= node.inputs.size() || node.inputs[input].empty())
        refuse(format("it has no input {}", input));
      return spec_of(node.inputs[input]);
    };
    for (GraphNode& one : adapted(as_read(node), graph_.opset, spec_of_operand)) {
      // Where nothing says what it meant then, it is known as far as its definition says.
      const bool newest = one.op != node.op || is_adapted(one.op);
      add_newest(std::move(one), newest ? ops::kNewestOpset : graph_.opset);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    throw Error(error.code(), error.message() + hint_on_batch(error.message()),
                place_of(graph_, node));
  }
}

// Of an operator that cannot take a shape with a batch, in a file where no axis is called one.
std::string Importer::hint_on_batch(const std::string& complaint) const {
  if (!fixed_batch_ || complaint.find("N") == std::string::npos ||
      complaint.find("[") == std::string::npos)
    return {};
  for (const GraphInput& input : graph_.inputs)
    if (!options_.constants.contains(input.name))
      return format(
          "; N is the batch, for which the first axis of every input stands: that of {}, "
          "of {}, too; a file whose batch has a name, as a dynamic axis has, says where it goes",
          input.name, *fixed_batch_);
  return {};
}

// Without the last outputs that nothing reads, of an operator that has more where it is trained.
GraphNode Importer::as_read(GraphNode node) const {
  const bool more = node.op == "Dropout" || (node.op == "BatchNormalization" && graph_.opset >= 14);
  while (more && node.outputs.size() > 1 && !read_.contains(node.outputs.back()))
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
      fold_sequence(node))
    return;
  const ops::OperatorDefinition& definition = ops::find_operator(node.op, opset);
  take_input_attributes(definition, node);
  if (node.op == "Dropout") take_dropout_ratio(node);
  if (!evaluate_constant(node)) add_node(std::move(node));
}

bool Importer::evaluate_constant(const GraphNode& node) {
  bool any = false;
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    if (!is_constant(input)) return false;
    any = true;
  }
  if (!any) return false;
  std::vector<TensorLiteral> literals(node.inputs.size());
  std::vector<const TensorLiteral*> inputs;
  ops::NodeFacts facts{node.attributes, {}, static_cast<int>(node.outputs.size())};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ops::Operand& operand = facts.inputs.emplace_back();
    operand.present = !node.inputs[i].empty();
    inputs.push_back(operand.present ? &literals[i] : nullptr);
    if (!operand.present) continue;
    literals[i] = literal(node.inputs[i], kMostEvaluated);
    operand.spec = {literals[i].dtype, literals[i].shape};
    operand.role = Role::kConstant;
  }
  const auto bound = ops::bind_operator(ops::find_operator(node.op), facts);
  for (const ops::ValueSpec& spec : bound->outputs()) {
    if (spec.shape.batched()) return false;  // repeated for every sample
    if (spec.bytes(0) > kMostEvaluated)
      refuse(format("it gives a constant of {}; {} is the most",
                    human_bytes(static_cast<double>(spec.bytes(0))),
                    human_bytes(static_cast<double>(kMostEvaluated))));
  }
  if (evaluator_ == nullptr) evaluator_ = std::make_unique<Evaluator>();
  std::vector<TensorLiteral> results = evaluator_->run(*bound, inputs, 1);
  // A weight that is turned over stays the weight of its name.
  const Fixed* turned =
      node.op == "Transpose" ? std::get_if<Fixed>(&known(node.inputs[0])) : nullptr;
  const bool named = turned != nullptr && weights_.contains(node.outputs[0]);
  if (named)
    note(format("{} is kept with its axes turned over; files of weights have it as this file",
                turned->name));
  const auto stored = named ? stored_turned_of(*turned, node) : nullptr;
  const std::string name = named ? turned->name : node.outputs[0];
  for (size_t i = 0; i < node.outputs.size(); ++i)
    set(node.outputs[i], Fixed{i == 0 ? name : node.outputs[i],
                               {results[i].dtype, results[i].shape},
                               contents_of(std::move(results[i].bytes), results[i].dtype),
                               {},
                               stored});
  return true;
}

void Importer::add_node(GraphNode node) {
  std::vector<ValueId> inputs;
  for (const std::string& input : node.inputs) inputs.push_back(in_model(input));
  const NodeId id = result_.model.add_node(node.name, node.op, node.attributes, inputs,
                                           std::max(1, static_cast<int>(node.outputs.size())));
  for (size_t i = 0; i < node.outputs.size(); ++i)
    set(node.outputs[i], result_.model.node(id).outputs[i]);
}

}  // namespace kerf::partitioner::onnx
