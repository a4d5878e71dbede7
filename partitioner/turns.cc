#include "partitioner/turns.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/error.h"

namespace kerf::partitioner {

namespace {

using Kind = Instruction::Kind;

// One list of all parts of a stage.
class Round {
 public:
  Round(const Plan& plan, const Stage& stage, std::vector<Part>& parts, InstructionList Part::*list)
      : plan_(plan), members_(stage.parts.begin(), stage.parts.end()) {
    for (const int part : stage.parts) {
      lists_.push_back(&(parts[static_cast<size_t>(part)].*list));
      lists_.back()->turns.clear();
    }
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (InstructionList* list : lists_)
        while (!over(*list) && !waits(next(*list))) {
          take(*list);
          moved = true;
        }
    }
    KERF_CHECK(std::all_of(lists_.begin(), lists_.end(), [](auto* list) { return over(*list); }),
               "the parts of a stage wait for each other");
  }

 private:
  static const Instruction& next(const InstructionList& list) {
    return list.instructions[list.turns.size()];
  }
  static bool over(const InstructionList& list) {
    return list.turns.size() == list.instructions.size();
  }
  bool waits(const Instruction& instruction) const {
    if (instruction.kind != Kind::kReceive || sent_.contains(instruction.route)) return false;
    return members_.contains(plan_.routes[static_cast<size_t>(instruction.route)].from);
  }
  void take(InstructionList& list) {
    if (const Instruction& instruction = next(list); instruction.kind == Kind::kSend)
      sent_.insert(instruction.route);
    list.turns.push_back(turn_++);
  }

  const Plan& plan_;
  std::set<int> members_;
  std::vector<InstructionList*> lists_;
  std::set<int> sent_;  // routes
  int turn_ = 0;
};

std::map<int, int> parts_by_worker(const Plan& plan, const Stage& stage) {
  std::map<int, int> parts;
  for (const int part : stage.parts) ++parts[plan.binding[static_cast<size_t>(part)]];
  return parts;
}

}  // namespace

bool needs_turns(const Plan& plan, const Stage& stage) {
  return parts_by_worker(plan, stage).size() < stage.parts.size();
}

void give_turns(const Plan& plan, std::vector<Part>& parts) {
  for (const Stage& stage : plan.stages) {
    if (!needs_turns(plan, stage)) continue;
    std::map<int, int> parts_on = parts_by_worker(plan, stage);
    for (const auto list : {&Part::forward, &Part::input_gradient, &Part::weight_gradient,
                            &Part::backward, &Part::checkpointed_forward, &Part::recompute}) {
      Round(plan, stage, parts, list).run();
      for (const int part : stage.parts)
        if (Part& each = parts[static_cast<size_t>(part)]; parts_on[each.worker] == 1)
          (each.*list).turns.clear();
    }
  }
}

Transient transient_of(const std::vector<const Part*>& parts, const std::vector<int64_t>& bytes) {
  Transient transient;
  std::map<int, int64_t> of_stage;
  for (size_t i = 0; i < parts.size(); ++i) {
    int64_t& sum = of_stage[parts[i]->stage];
    transient.starts.push_back(sum);
    sum += bytes[i];
    transient.bytes = std::max(transient.bytes, sum);
  }
  return transient;
}

}  // namespace kerf::partitioner
