#include "schedmp/walk.h"

namespace kerf::schedmp {

using partitioner::Instruction;
using partitioner::LocalCall;
using partitioner::Part;
using partitioner::StagePart;

namespace {

const StagePart* find_stage(const Part& part, int stage) {
  for (const StagePart& candidate : part.stages)
    if (candidate.stage == stage) return &candidate;
  return nullptr;
}

}  // namespace

std::vector<const std::vector<Instruction>*> lists_of(const Part& part, const Action& action) {
  const StagePart* stage = find_stage(part, action.stage);
  if (stage == nullptr) return {};
  switch (action.kind) {
    case ActionKind::kForward:
      return {&stage->forward};
    case ActionKind::kInputGradient:
      return {&stage->input_gradient};
    case ActionKind::kWeightGradient:
      return {&stage->weight_gradient};
    case ActionKind::kBackward:
      return {&stage->input_gradient, &stage->weight_gradient};
    case ActionKind::kUpdate:
      return {&stage->update};
    default:
      return {};
  }
}

std::vector<int> locals_touched(const Part& part, const Instruction& instruction) {
  std::vector<int> touched;
  const auto touch = [&](int local) {
    if (local >= 0) touched.push_back(local);
  };
  switch (instruction.kind) {
    case Instruction::Kind::kForward: {
      const LocalCall& call = part.calls[static_cast<size_t>(instruction.call)];
      for (const int local : call.inputs) touch(local);
      for (const int local : call.outputs) touch(local);
      break;
    }
    case Instruction::Kind::kGradient:
      for (const Instruction::Target& target : instruction.targets) touch(target.local);
      break;
    case Instruction::Kind::kZero:
      touch(instruction.local);
      break;
    case Instruction::Kind::kReceive:
    case Instruction::Kind::kSend:
    case Instruction::Kind::kCopy:
      for (const partitioner::Move& move : instruction.moves) touch(move.local);
      break;
    case Instruction::Kind::kUpdate:
    case Instruction::Kind::kFree:
    case Instruction::Kind::kFreeSaved:
      break;
  }
  return touched;
}

}  // namespace kerf::schedmp
