// Slots: which locals are made in the slot of a message, and when a part has one.
#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "partitioner/list_uses.h"
#include "partitioner/lowering.h"

namespace kerf::partitioner {
namespace {

using Kind = Instruction::Kind;

class InSlots {
 public:
  InSlots(const Model& model, Part& part)
      : part_(part), lists_(lists_of(part)), uses_(uses_of_locals(model, part)) {
    for (size_t list = 0; list < kLists; ++list)
      for (size_t i = 0; i < instructions(list).size(); ++i)
        if (const Instruction& each = instructions(list)[i]; each.kind == Kind::kSend)
          for (const Move& move : each.moves)
            sends_[root_of(part_, move.local)].push_back({list, i});
  }

  void run() {
    for (const auto& [root, uses] : uses_) make_in_slot(root, uses);
    for (size_t list = 0; list < kLists; ++list) rebuild(list);
  }

 private:
  struct Position {
    size_t list = 0;
    size_t index = 0;
  };
  // What a micro-batch goes through of the lists that use a local: F, I and W, or F and B; a list
  // of the step is a passage by itself.
  using Passage = std::vector<size_t>;

  std::vector<Instruction>& instructions(size_t list) const { return lists_[list]->instructions; }
  Instruction& at(const Position& place) const { return instructions(place.list)[place.index]; }
  Local& local(int index) const { return part_.locals[static_cast<size_t>(index)]; }

  static std::vector<Passage> passages_of(const ListUses& uses);
  bool writes(const Instruction& instruction, int root) const;
  bool suits(int root, const ListUses& uses, const Passage& passage, const Position& send) const;
  std::vector<Position> slot_sends(int root, const ListUses& uses,
                                   const std::vector<Passage>& passages) const;
  void make_in_slot(int root, const ListUses& uses);
  void retain(const ListUses& uses, const Passage& passage, const Position& send);
  void rebuild(size_t list);

  Part& part_;
  const std::array<InstructionList*, kLists> lists_;
  const std::map<int, ListUses> uses_;
  std::map<int, std::vector<Position>> sends_;  // by root
  // Instructions to stand after each of a list's.
  std::array<std::map<size_t, std::vector<Instruction>>, kLists> after_;
};

std::vector<InSlots::Passage> InSlots::passages_of(const ListUses& uses) {
  std::set<Passage> passages;
  const auto add = [&](std::initializer_list<size_t> lists) {
    Passage passage;
    for (const size_t list : lists)
      if (uses.in_list(list)) passage.push_back(list);
    if (!passage.empty()) passages.insert(std::move(passage));
  };
  add({kF, kI, kW});
  add({kF, kB});
  for (const size_t list : {kContribute, kReduce, kConclude, kUpdate, kFetch}) add({list});
  return {passages.begin(), passages.end()};
}

bool InSlots::writes(const Instruction& instruction, int root) const {
  const auto is_root = [&](int each) { return each >= 0 && root_of(part_, each) == root; };
  switch (instruction.kind) {
    case Kind::kForward:
      return std::ranges::any_of(part_.calls[static_cast<size_t>(instruction.call)].outputs,
                                 is_root);
    case Kind::kGradient:
      return std::ranges::any_of(instruction.targets, is_root, &Instruction::Target::local);
    case Kind::kReceive:
      return std::ranges::any_of(instruction.moves, is_root, &Move::local);
    case Kind::kCopy:
      return is_root(instruction.moves[1].local);
    case Kind::kZero:
      return is_root(instruction.local);
    default:
      return false;
  }
}

// Whether the tensor can be made in the slot of this send: the first list of the passage makes it
// without waiting for a message and sends it whole, and nobody writes to it after that.
bool InSlots::suits(int root, const ListUses& uses, const Passage& passage,
                    const Position& send) const {
  if (send.list != passage.front()) return false;
  const Instruction& sent = at(send);
  if (sent.moves.size() != 1 || !sent.moves[0].whole) return false;
  for (size_t i = uses.in [send.list]->first; i < send.index; ++i)
    if (instructions(send.list)[i].kind == Kind::kReceive) return false;
  for (const size_t list : passage)
    for (size_t i = list == send.list ? send.index + 1 : uses.in[list]->first;
         i <= uses.in[list]->last; ++i)
      if (writes(instructions(list)[i], root)) return false;
  return true;
}

// A send for each passage, all of one route, that suit; empty if there is no such route. (A
// gradient is sent in I, or W, and in B.)
std::vector<InSlots::Position> InSlots::slot_sends(int root, const ListUses& uses,
                                                   const std::vector<Passage>& passages) const {
  const auto sends = sends_.find(root);
  if (sends == sends_.end()) return {};
  for (const Position& candidate : sends->second) {
    const int route = at(candidate).route;
    std::vector<Position> found;
    for (const Passage& passage : passages)
      for (const Position& send : sends->second)
        if (at(send).route == route && suits(root, uses, passage, send)) found.push_back(send);
    if (found.size() == passages.size()) return found;
  }
  return {};
}

void InSlots::make_in_slot(int root, const ListUses& uses) {
  Local& made = local(root);
  if (made.storage != Storage::kOwn || made.kind == LocalKind::kData) return;
  const std::vector<Passage> passages = passages_of(uses);
  const std::vector<Position> sends = slot_sends(root, uses, passages);
  if (sends.empty()) return;
  made.storage = Storage::kSent;
  made.route = at(sends[0]).route;
  for (const Position& place : sends) {
    Instruction& send = at(place);
    if (send.moves.empty()) continue;  // both passages begin with F
    send.local = send.moves[0].local;
    send.moves.clear();
  }
  for (size_t i = 0; i < passages.size(); ++i) retain(uses, passages[i], sends[i]);
}

// Where this part reads the tensor after its send.
void InSlots::retain(const ListUses& uses, const Passage& passage, const Position& place) {
  const size_t last = passage.back();
  if (last == place.list && uses.in[last]->last == place.index) return;
  Instruction& send = at(place);
  send.retained = true;
  Instruction retire;
  retire.kind = Kind::kRetire;
  retire.route = send.route;
  retire.local = send.local;
  after_[last][uses.in[last]->last].push_back(std::move(retire));
}

// A slot is had from where something is made in it, or packed.
void InSlots::rebuild(size_t list) {
  std::map<size_t, std::vector<Instruction>> before;
  for (size_t i = 0; i < instructions(list).size(); ++i) {
    const Instruction& send = instructions(list)[i];
    if (send.kind != Kind::kSend) continue;
    Instruction acquire;
    acquire.kind = Kind::kAcquire;
    acquire.route = send.route;
    if (send.local >= 0) acquire.local = root_of(part_, send.local);
    before[acquire.local < 0 ? i : uses_.at(acquire.local).in[list]->first].push_back(
        std::move(acquire));
  }
  std::vector<Instruction> result;
  for (size_t i = 0; i < instructions(list).size(); ++i) {
    std::ranges::move(before[i], std::back_inserter(result));
    result.push_back(std::move(instructions(list)[i]));
    std::ranges::move(after_[list][i], std::back_inserter(result));
  }
  instructions(list) = std::move(result);
}

}  // namespace

void write_into_slots(const Model& model, Part& part) { InSlots(model, part).run(); }

}  // namespace kerf::partitioner
