#include "partitioner/recomputation.h"

#include <algorithm>
#include <vector>

#include "partitioner/call_needs.h"
#include "runtime/error.h"

namespace kerf::partitioner {

namespace {

using Kind = Instruction::Kind;

class Recomputation {
 public:
  Recomputation(const Model& model, Part& part)
      : model_(model),
        part_(part),
        needed_(part.locals.size()),
        entered_(part.locals.size()),
        reserved_(part.calls.size()) {}

  void run() {
    find_entered();
    find_needed();
    std::vector<Instruction>& again = part_.recompute.instructions;
    const std::vector<Instruction>& forward = part_.forward.instructions;
    for (auto each = forward.rbegin(); each != forward.rend(); ++each)
      if (is_run_again(*each)) {
        need(locals_touched(model_, part_, *each));
        again.push_back(*each);
      }
    std::ranges::reverse(again);
    part_.checkpointed_forward.instructions = forward;
    for (size_t i = 0; i < part_.locals.size(); ++i) part_.locals[i].entered = entered_[i];
  }

 private:
  size_t root(int local) const { return static_cast<size_t>(root_of(part_, local)); }

  // What is put together of messages stays as a whole, even where this part made some of it.
  void find_entered() {
    for (const Instruction& each : part_.forward.instructions) {
      if (each.kind != Kind::kReceive) continue;
      if (each.local >= 0) entered_[root(each.local)] = true;
      for (const int written : locals_written(part_, each)) entered_[root(written)] = true;
    }
  }

  void need(const std::vector<int>& locals) {
    for (const int local : locals) needed_[root(local)] = true;
  }

  void find_needed() {
    for (const InstructionList* list : {&part_.input_gradient, &part_.weight_gradient})
      for (const Instruction& each : list->instructions) {
        need(locals_touched(model_, part_, each));
        if (each.kind != Kind::kGradient) continue;
        const auto call = static_cast<size_t>(each.call);
        if (uses_reserve(model_, part_.calls[call], pass_of(each))) reserved_[call] = true;
      }
  }

  bool is_run_again(const Instruction& instruction) const {
    if (instruction.kind != Kind::kForward && instruction.kind != Kind::kCopy &&
        instruction.kind != Kind::kZero)
      return false;
    bool again = instruction.call >= 0 && reserved_[static_cast<size_t>(instruction.call)];
    bool enters = false;
    for (const int local : locals_written(part_, instruction)) {
      if (local < 0) continue;
      enters = enters || entered_[root(local)];
      again = again || (needed_[root(local)] && !entered_[root(local)]);
    }
    KERF_CHECK(!(again && enters), "what others have a share in is made again, by {}",
               model_.node(part_.calls[static_cast<size_t>(instruction.call)].node).name);
    return again;
  }

  const Model& model_;
  Part& part_;
  std::vector<bool> needed_, entered_;  // by root
  std::vector<bool> reserved_;          // by call: a gradient reads what its forward reserved
};

}  // namespace

void add_recomputation(const Model& model, Part& part) { Recomputation(model, part).run(); }

}  // namespace kerf::partitioner
