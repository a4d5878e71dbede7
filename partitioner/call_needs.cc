#include "partitioner/call_needs.h"

#include "partitioner/memory.h"

namespace kerf::partitioner {
namespace {

// A thread of a kernel divides what is granted into blocks of 64 bytes, at most so many.
constexpr int64_t kMostBuffers = 4;

void add(const std::vector<int>& locals, const std::vector<int>& which, std::vector<int>& to) {
  for (const int k : which)
    if (static_cast<size_t>(k) < locals.size()) to.push_back(locals[static_cast<size_t>(k)]);
}

}  // namespace

Pass pass_of(const Part& part, const Instruction& instruction) {
  if (instruction.kind == Instruction::Kind::kForward) return Pass::kForward;
  const int target = instruction.targets.at(0).local;
  return part.locals[static_cast<size_t>(target)].persistent() ? Pass::kWeightGradient
                                                               : Pass::kInputGradient;
}

std::vector<int> locals_read(const Model& model, const LocalCall& call, Pass pass) {
  if (pass == Pass::kForward) return call.inputs;
  const ops::Keeps keeps = model.op(call.node).keeps();
  std::vector<int> read;
  if (pass == Pass::kWeightGradient) {
    add(call.inputs, keeps.inputs_for_weight_gradient, read);
    return read;
  }
  add(call.inputs, keeps.inputs_for_input_gradient, read);
  add(call.outputs, keeps.outputs_for_input_gradient, read);
  return read;
}

bool shares_memory(const Model& model, NodeId node) { return model.op(node).aliases(); }

void measure_call(const Model& model, const Part& part, int64_t samples, int threads,
                  LocalCall& call) {
  const Node& node = model.node(call.node);
  const ops::Operator& op = model.op(call.node);
  std::vector<ops::ValueSpec> inputs;
  for (const int input : call.inputs) {
    const ops::ValueSpec& spec = part.locals[static_cast<size_t>(input)].spec;
    inputs.push_back({spec.dtype, spec.shape.with_batch(samples)});
  }
  call.saved = whole_blocks(static_cast<int64_t>(op.saved_bytes(node.attributes, inputs)));
  const auto workspace = static_cast<int64_t>(op.workspace_bytes(node.attributes, inputs, threads));
  call.workspace = workspace == 0 ? 0 : whole_blocks(workspace) + kMostBuffers * threads * 64;
}

}  // namespace kerf::partitioner
