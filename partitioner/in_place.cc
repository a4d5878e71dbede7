// In place: outputs that are written over inputs.
#include <algorithm>
#include <cstddef>

#include "partitioner/call_needs.h"
#include "partitioner/lowering.h"

namespace kerf::partitioner {
namespace {

class InPlace {
 public:
  InPlace(const Model& model, Part& part)
      : model_(model),
        part_(part),
        first_(part.locals.size(), part.forward.instructions.size()),
        last_(part.locals.size()),
        read_backward_(part.locals.size()) {
    for (const InstructionList* list :
         {&part.input_gradient, &part.weight_gradient, &part.backward})
      for (const Instruction& instruction : list->instructions)
        for (const int local : locals_touched(model, part, instruction))
          read_backward_[root(local)] = true;
    for (size_t i = 0; i < part.forward.instructions.size(); ++i)
      for (const int local : locals_touched(model, part, part.forward.instructions[i])) {
        first_[root(local)] = std::min(first_[root(local)], i);
        last_[root(local)] = i;
      }
  }

  void run() {
    for (size_t i = 0; i < part_.forward.instructions.size(); ++i) {
      const Instruction& instruction = part_.forward.instructions[i];
      if (instruction.kind == Instruction::Kind::kForward)
        overwrite(part_.calls[static_cast<size_t>(instruction.call)], i);
    }
  }

 private:
  size_t root(int local) const { return static_cast<size_t>(root_of(part_, local)); }
  Local& local(int index) { return part_.locals[static_cast<size_t>(index)]; }

  void overwrite(const LocalCall& call, size_t at) {
    const int output = call.outputs[0];
    if (output < 0 || local(output).storage != Storage::kOwn ||
        local(output).kind != LocalKind::kActivation || first_[root(output)] != at)
      return;
    const ops::BoundOperator& op = model_.op(call.node);
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (!op.may_overwrite(static_cast<int>(i)) || !ends(call, call.inputs[i], at)) continue;
      const Local& input = local(call.inputs[i]);
      if (!(input.box == local(output).box) || !(input.whole == local(output).whole)) continue;
      const size_t made = root(output);
      local(output).storage = Storage::kAlias;
      local(output).alias_of = call.inputs[i];
      last_[root(output)] = last_[made];
      read_backward_[root(output)] = read_backward_[made];
      return;
    }
  }

  // Whether the input's memory is this part's to write to, and this call the last that reads it,
  // once.
  bool ends(const LocalCall& call, int input, size_t at) {
    if (input < 0) return false;
    const size_t memory = root(input);
    const Local& held = part_.locals[memory];
    const auto same = [&](int other) { return other >= 0 && root(other) == memory; };
    return held.storage == Storage::kOwn && held.kind == LocalKind::kActivation && !held.entered &&
           last_[memory] == at && !read_backward_[memory] &&
           std::count_if(call.inputs.begin(), call.inputs.end(), same) == 1;
  }

  const Model& model_;
  Part& part_;
  std::vector<size_t> first_, last_;  // by root: instructions of the forward list
  std::vector<bool> read_backward_;   // by root
};

}  // namespace

void write_in_place(const Model& model, Part& part) { InPlace(model, part).run(); }

}  // namespace kerf::partitioner
