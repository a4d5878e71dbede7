// What a worker's row comes to, instruction by instruction, put together without the interpreter:
// for oracles that play rows by themselves.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "partitioner/part.h"
#include "schedmp/schedule.h"

namespace kerf::schedmp {

struct RowStep {
  Action action;
  const partitioner::Part* part = nullptr;
  const partitioner::Instruction* instruction = nullptr;
};

// Of the parts of a stage that are bound to a worker: by turns.
inline void append_list(const std::vector<partitioner::Part>& parts, int worker,
                        const Action& action, partitioner::InstructionList partitioner::Part::*list,
                        std::vector<RowStep>& to) {
  std::multimap<int, RowStep> by_turn;
  for (const partitioner::Part& part : parts) {
    if (part.worker != worker || part.stage != action.stage) continue;
    const partitioner::InstructionList& mine = part.*list;
    for (size_t i = 0; i < mine.instructions.size(); ++i)
      by_turn.emplace(mine.turns.empty() ? 0 : mine.turns[i],
                      RowStep{action, &part, &mine.instructions[i]});
  }
  for (const auto& [turn, step] : by_turn) to.push_back(step);
}

// The rest of all updates is taken together where the last of them stands, which is the row's end.
inline std::vector<RowStep> steps_of_row(const std::vector<partitioner::Part>& parts,
                                         const Schedule& schedule, int worker) {
  using partitioner::Part;
  std::vector<RowStep> steps;
  std::set<int> reduced;
  std::vector<Action> updated;
  std::set<std::pair<int, int>> recomputed;
  for (const Action& action : schedule.rows[static_cast<size_t>(worker)])
    if (action.kind == ActionKind::kRecompute) recomputed.emplace(action.stage, action.micro_batch);
  for (const Action& action : schedule.rows[static_cast<size_t>(worker)]) {
    const auto add = [&](partitioner::InstructionList Part::*list) {
      append_list(parts, worker, action, list, steps);
    };
    const bool again = recomputed.contains({action.stage, action.micro_batch});
    if (action.kind == ActionKind::kForward)
      add(again ? &Part::checkpointed_forward : &Part::forward);
    if (action.kind == ActionKind::kRecompute) add(&Part::recompute);
    if (action.kind == ActionKind::kInputGradient) add(&Part::input_gradient);
    if (action.kind == ActionKind::kWeightGradient) add(&Part::weight_gradient);
    if (action.kind == ActionKind::kBackward) add(&Part::backward);
    const bool contributes =
        action.kind == ActionKind::kReduceGradient || action.kind == ActionKind::kUpdate;
    if (contributes && reduced.insert(action.stage).second) add(&Part::contribute);
    if (action.kind == ActionKind::kUpdate) updated.push_back(action);
  }
  for (const auto list : {&Part::reduce, &Part::conclude, &Part::update, &Part::fetch})
    for (const Action& each : updated) append_list(parts, worker, each, list, steps);
  return steps;
}

}  // namespace kerf::schedmp
