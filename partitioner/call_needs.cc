#include "partitioner/call_needs.h"

#include <algorithm>

#include "ops/kernel.h"
#include "partitioner/blocks.h"

namespace kerf::partitioner {
namespace {

using Kind = Instruction::Kind;

void add(const std::vector<int>& locals, const std::vector<int>& which, std::vector<int>& to) {
  for (const int k : which)
    if (static_cast<size_t>(k) < locals.size() && locals[static_cast<size_t>(k)] >= 0)
      to.push_back(locals[static_cast<size_t>(k)]);
}

int64_t blocks(size_t bytes) { return whole_blocks(static_cast<int64_t>(bytes)); }

void add_all(const std::vector<int>& locals, std::vector<int>& to) {
  for (const int local : locals)
    if (local >= 0) to.push_back(local);
}

}  // namespace

Pass pass_of(const Instruction& instruction) {
  if (instruction.kind == Instruction::Kind::kForward) return Pass::kForward;
  return instruction.weights ? Pass::kWeightGradient : Pass::kInputGradient;
}

std::vector<int> locals_read(const Model& model, const LocalCall& call, Pass pass) {
  std::vector<int> read;
  if (pass == Pass::kForward) {
    add_all(call.inputs, read);
    return read;
  }
  const ops::BackwardReads reads = model.op(call.node).backward_reads();
  const bool weights = pass == Pass::kWeightGradient;
  add(call.inputs, weights ? reads.inputs_for_weight_gradient : reads.inputs_for_input_gradient,
      read);
  add(call.outputs, weights ? reads.outputs_for_weight_gradient : reads.outputs_for_input_gradient,
      read);
  if (!weights || reads.output_gradients_for_weight_gradient) add_all(call.output_gradients, read);
  return read;
}

bool uses_reserve(const Model& model, const LocalCall& call, Pass pass) {
  return call.reserve > 0 && (pass != Pass::kWeightGradient ||
                              model.op(call.node).backward_reads().reserve_for_weight_gradient);
}

bool uses_handed(const LocalCall& call, Pass pass) {
  return call.handed > 0 && pass != Pass::kForward;
}

bool shares_memory(const Model& model, NodeId node) { return model.op(node).aliases(); }

void measure_call(const Model& model, const CallSetting& setting, LocalCall& call) {
  const ops::BoundOperator& op = model.op(call.node);
  const ops::LocalSpecs local =
      ops::local_specs(op, call.iterations, setting.largest, setting.largest);
  call.reserve = blocks(op.reserve_bytes(local));
  call.handed = blocks(op.handed_bytes(local));
  if (!setting.times_only && !setting.change)
    call.packed =
        blocks(ops::packed_bytes(op, setting.device, local, setting.threads, setting.gradients));
}

// What a library takes need not grow with the rows.
void measure_workspace(const Model& model, const CallSetting& setting,
                       std::span<const int64_t> sizes, bool accumulates, LocalCall& call) {
  const ops::BoundOperator& op = model.op(call.node);
  for (const int64_t samples : sizes) {
    ops::LocalSpecs local = ops::local_specs(op, call.iterations, setting.largest, samples);
    local.accumulates = accumulates;
    try {
      call.workspace = std::max(
          call.workspace, blocks(ops::workspace_bytes(op, setting.device, local, setting.threads)));
    } catch (const Error& error) {
      throw Error(error.code(), error.message(),
                  format("{}/{}", model.name(), model.node(call.node).name));
    }
  }
}

std::vector<int> locals_touched(const Model& model, const Part& part,
                                const Instruction& instruction) {
  std::vector<int> result;
  if (instruction.kind == Instruction::Kind::kClear) return result;  // its memory may be another's
  if (instruction.local >= 0) result.push_back(instruction.local);
  if (instruction.other >= 0) result.push_back(instruction.other);
  for (const Move& move : instruction.moves) result.push_back(move.local);
  if (instruction.call < 0) return result;
  const LocalCall& call = part.calls[static_cast<size_t>(instruction.call)];
  const auto add = [&](const std::vector<int>& more) {
    for (const int each : more)
      if (each >= 0) result.push_back(each);
  };
  if (instruction.kind == Instruction::Kind::kLoss) {
    add({call.outputs[0]});
    add(call.inputs);
    return result;
  }
  const Pass pass = pass_of(instruction);
  add(locals_read(model, call, pass));
  if (pass == Pass::kForward) add(call.outputs);
  for (const Instruction::Target& target : instruction.targets) add({target.local});
  return result;
}

std::vector<int> locals_written(const Part& part, const Instruction& instruction) {
  std::vector<int> written;
  switch (instruction.kind) {
    case Kind::kForward:
      return part.calls[static_cast<size_t>(instruction.call)].outputs;
    case Kind::kGradient:
      for (const Instruction::Target& target : instruction.targets) written.push_back(target.local);
      return written;
    case Kind::kReceive:
      for (const Move& move : instruction.moves) written.push_back(move.local);
      return written;
    case Kind::kCopy:
      return {instruction.moves[1].local};
    case Kind::kZero:
      return {instruction.local};
    default:
      return written;
  }
}

}  // namespace kerf::partitioner
