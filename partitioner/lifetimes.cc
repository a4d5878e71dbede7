#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "partitioner/lowering.h"

namespace kerf::partitioner {
namespace {

using Kind = Instruction::Kind;

// Phase (0 F, 1 I, 2 W) and place in its list.
struct Position {
  int phase = 0;
  size_t index = 0;
  auto operator<=>(const Position&) const = default;
};

class Lifetimes {
 public:
  Lifetimes(const Model& model, Part& part, StagePart& stage)
      : model_(model),
        part_(part),
        lists_{&stage.forward, &stage.input_gradient, &stage.weight_gradient} {
    for (int phase = 0; phase < 3; ++phase)
      for (size_t i = 0; i < list(phase).size(); ++i) note(list(phase)[i], {phase, i});
  }

  // Not freed before the end of F.
  void keep(int local) { touch(local, {0, list(0).size()}); }
  void write_into_slots();
  void insert_frees();

 private:
  struct Span {
    Position first;
    Position last;
    std::vector<Position> sends;
    std::vector<int> locals;  // the root and its aliases, ascending
  };

  std::vector<Instruction>& list(int phase) { return *lists_[static_cast<size_t>(phase)]; }
  int root(int local) const {
    while (part_.locals[static_cast<size_t>(local)].storage == Storage::kAlias)
      local = part_.locals[static_cast<size_t>(local)].alias_of;
    return local;
  }
  void touch(int local, Position position);
  void note(const Instruction& instruction, Position position);
  void note_call(const Instruction& instruction, Position position);
  bool receives_between(Position first, Position last);

  const Model& model_;
  Part& part_;
  std::array<std::vector<Instruction>*, 3> lists_;
  std::map<int, Span> spans_;      // by root
  std::map<int, Position> saved_;  // by call: last use
};

void Lifetimes::touch(int local, Position position) {
  if (local < 0 || part_.locals[static_cast<size_t>(local)].persistent()) return;
  const auto [found, fresh] = spans_.try_emplace(root(local), Span{position, position, {}, {}});
  Span& span = found->second;
  span.first = std::min(span.first, position);
  span.last = std::max(span.last, position);
  if (std::find(span.locals.begin(), span.locals.end(), local) == span.locals.end())
    span.locals.push_back(local);
}

void Lifetimes::note(const Instruction& instruction, Position position) {
  if (instruction.kind == Kind::kForward || instruction.kind == Kind::kGradient)
    note_call(instruction, position);
  touch(instruction.local, position);
  for (const Move& move : instruction.moves) {
    touch(move.local, position);
    if (instruction.kind == Kind::kSend) spans_.at(root(move.local)).sends.push_back(position);
  }
}

void Lifetimes::note_call(const Instruction& instruction, Position position) {
  const LocalCall& call = part_.calls[static_cast<size_t>(instruction.call)];
  if (call.saved > 0) saved_[instruction.call] = position;
  if (instruction.kind == Kind::kForward) {
    for (const int local : call.inputs) touch(local, position);
    for (const int local : call.outputs) touch(local, position);
    return;
  }
  const ops::Keeps keeps = model_.op(call.node).keeps();
  const bool weights = position.phase == 2;
  for (const int k : weights ? keeps.inputs_for_weight_gradient : keeps.inputs_for_input_gradient)
    if (static_cast<size_t>(k) < call.inputs.size())
      touch(call.inputs[static_cast<size_t>(k)], position);
  if (!weights)
    for (const int k : keeps.outputs_for_input_gradient)
      touch(call.outputs[static_cast<size_t>(k)], position);
  for (const int local : call.output_gradients) touch(local, position);
  for (const auto& target : instruction.targets) touch(target.local, position);
}

bool Lifetimes::receives_between(Position first, Position last) {
  const auto& instructions = list(first.phase);
  return std::any_of(instructions.begin() + static_cast<std::ptrdiff_t>(first.index),
                     instructions.begin() + static_cast<std::ptrdiff_t>(last.index),
                     [](const Instruction& i) { return i.kind == Kind::kReceive; });
}

// A tensor whose last use is that it is sent whole, to one part, is made in the slot.
void Lifetimes::write_into_slots() {
  for (auto& [id, span] : spans_) {
    Local& local = part_.locals[static_cast<size_t>(id)];
    const bool made_here = local.storage == Storage::kOwn && local.kind != LocalKind::kData;
    if (!made_here || span.sends.size() != 1 || span.sends[0] != span.last) continue;
    if (span.first.phase != span.last.phase || receives_between(span.first, span.last)) continue;
    Instruction& send = list(span.last.phase)[span.last.index];
    if (send.moves.size() != 1 || !send.moves[0].region.everything()) continue;
    local.storage = Storage::kSent;
    local.route = send.route;
    send.local = id;
    send.moves.clear();
  }
}

void Lifetimes::insert_frees() {
  std::map<Position, std::vector<Instruction>> frees;
  for (const auto& [call, last] : saved_) {
    Instruction free;
    free.kind = Kind::kFreeSaved;
    free.call = call;
    frees[last].push_back(std::move(free));
  }
  for (const auto& [id, span] : spans_)
    for (auto local = span.locals.rbegin(); local != span.locals.rend(); ++local) {
      Instruction free;
      free.kind = Kind::kFree;
      free.local = *local;
      frees[span.last].push_back(std::move(free));
    }
  const Position end_of_forward{0, list(0).size()};
  for (int phase = 0; phase < 3; ++phase) {
    std::vector<Instruction> with_frees;
    const auto add = [&](Position position) {
      for (Instruction& free : frees[position]) with_frees.push_back(std::move(free));
    };
    // What was kept to the end of F goes when I begins.
    if (phase == 1) add(end_of_forward);
    for (size_t i = 0; i < list(phase).size(); ++i) {
      with_frees.push_back(std::move(list(phase)[i]));
      add({phase, i});
    }
    lists_[static_cast<size_t>(phase)]->swap(with_frees);
  }
}

}  // namespace

void place_lifetimes(const Model& model, Part& part, StagePart& stage,
                     const std::vector<int>& kept) {
  Lifetimes lifetimes(model, part, stage);
  for (const int local : kept) lifetimes.keep(local);
  lifetimes.write_into_slots();
  lifetimes.insert_frees();
}

}  // namespace kerf::partitioner
