// Slots: which locals are made in the slot of a message, and when a part has one.
#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "partitioner/call_needs.h"
#include "partitioner/insertions.h"
#include "partitioner/list_uses.h"
#include "partitioner/lowering.h"

namespace kerf::partitioner {
namespace {

using Kind = Instruction::Kind;

class InSlots {
 public:
  // What is made again has memory of its own: its slot may be another message's by then.
  InSlots(const Model& model, Part& part)
      : model_(model), part_(part), lists_(lists_of(part)), recomputed_(part.locals.size()) {
    for (const Instruction& each : part.recompute.instructions)
      for (const int touched : locals_touched(model, part, each))
        recomputed_[static_cast<size_t>(root_of(part, touched))] = true;
  }

  void run() {
    find_sent();
    find_writers();
    const std::vector<ListUses> uses = uses_of_locals(model_, part_);
    for (const auto& [root, sent] : sent_)
      make_in_slot(root, sent, uses[static_cast<size_t>(root)]);
    for (size_t list = 0; list < kLists; ++list) {
      acquire(list, uses);
      insertions_[list].insert_into(*lists_[list]);
    }
  }

 private:
  struct Position {
    size_t list = 0;
    size_t index = 0;
  };
  // What is sent, whole or in pieces, and may be made in a slot: in order.
  struct Sent {
    std::vector<Position> sends;
    std::vector<Position> writers;
  };
  // What a micro-batch goes through of the lists that use a local: F, I and W, or F and B; a list
  // of the step is a passage by itself.
  using Passage = std::vector<size_t>;

  std::vector<Instruction>& instructions(size_t list) const { return lists_[list]->instructions; }
  Instruction& at(const Position& place) const { return instructions(place.list)[place.index]; }
  Local& local(int index) const { return part_.locals[static_cast<size_t>(index)]; }

  void find_sent();
  void find_writers();
  static std::vector<Passage> passages_of(const ListUses& uses);
  bool suits(const Sent& sent, const ListUses& uses, const Passage& passage,
             const Position& send) const;
  std::vector<Position> slot_sends(const Sent& sent, const ListUses& uses,
                                   const std::vector<Passage>& passages) const;
  void make_in_slot(int root, const Sent& sent, const ListUses& uses);
  void retain(const ListUses& uses, const Passage& passage, const Position& send);
  void acquire(size_t list, const std::vector<ListUses>& uses);

  const Model& model_;
  Part& part_;
  const std::array<InstructionList*, kLists> lists_;
  std::map<int, Sent> sent_;      // by root
  std::vector<bool> recomputed_;  // by root: RECOMPUTE makes or reads it
  // By list: where a kReceive stands, rising.
  std::array<std::vector<size_t>, kLists> receives_;
  std::array<Insertions, kLists> insertions_;
};

void InSlots::find_sent() {
  for (size_t list = 0; list < kLists; ++list)
    for (size_t i = 0; i < instructions(list).size(); ++i) {
      const Instruction& each = instructions(list)[i];
      if (each.kind != Kind::kSend) continue;
      for (const Move& move : each.moves) {
        const int root = root_of(part_, move.local);
        const Local& made = local(root);
        if (recomputed_[static_cast<size_t>(root)]) continue;
        if (made.storage == Storage::kOwn && made.kind != LocalKind::kData && !made.persistent())
          sent_[root].sends.push_back({list, i});
      }
    }
}

void InSlots::find_writers() {
  for (size_t list = 0; list < kLists; ++list)
    for (size_t i = 0; i < instructions(list).size(); ++i) {
      const Instruction& each = instructions(list)[i];
      if (each.kind == Kind::kReceive) receives_[list].push_back(i);
      for (const int written : locals_written(part_, each))
        if (written >= 0)
          if (const auto sent = sent_.find(root_of(part_, written)); sent != sent_.end())
            sent->second.writers.push_back({list, i});
    }
}

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
  add({kCheckpointed});
  for (const size_t list : {kContribute, kReduce, kConclude, kUpdate, kFetch}) add({list});
  return {passages.begin(), passages.end()};
}

// Whether the tensor can be made in the slot of this send: the first list of the passage makes it
// without waiting for a message and sends it whole, and nobody writes to it after that.
bool InSlots::suits(const Sent& sent, const ListUses& uses, const Passage& passage,
                    const Position& send) const {
  if (send.list != passage.front()) return false;
  const std::vector<Move>& moves = at(send).moves;
  if (moves.size() != 1 || !moves[0].whole) return false;
  const std::vector<size_t>& receives = receives_[send.list];
  const auto receive = std::ranges::lower_bound(receives, uses.in[send.list]->first);
  if (receive != receives.end() && *receive < send.index) return false;
  return std::ranges::none_of(sent.writers, [&](const Position& writer) {
    return writer.list == send.list ? writer.index > send.index
                                    : std::ranges::find(passage, writer.list) != passage.end();
  });
}

// A send for each passage, all of one route, that suit; empty if there is no such route. (A
// gradient is sent in I, or W, and in B.)
std::vector<InSlots::Position> InSlots::slot_sends(const Sent& sent, const ListUses& uses,
                                                   const std::vector<Passage>& passages) const {
  for (const Position& candidate : sent.sends) {
    const int route = at(candidate).route;
    std::vector<Position> found;
    for (const Passage& passage : passages)
      for (const Position& send : sent.sends)
        if (at(send).route == route && suits(sent, uses, passage, send)) found.push_back(send);
    if (found.size() == passages.size()) return found;
  }
  return {};
}

void InSlots::make_in_slot(int root, const Sent& sent, const ListUses& uses) {
  const std::vector<Passage> passages = passages_of(uses);
  const std::vector<Position> sends = slot_sends(sent, uses, passages);
  if (sends.empty()) return;
  Local& made = local(root);
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
  insertions_[last].after(uses.in[last]->last, std::move(retire));
}

// A slot is had from where something is made in it, or packed.
void InSlots::acquire(size_t list, const std::vector<ListUses>& uses) {
  for (size_t i = 0; i < instructions(list).size(); ++i) {
    const Instruction& send = instructions(list)[i];
    if (send.kind != Kind::kSend) continue;
    Instruction acquire;
    acquire.kind = Kind::kAcquire;
    acquire.route = send.route;
    if (send.local >= 0) acquire.local = root_of(part_, send.local);
    const size_t from =
        acquire.local < 0 ? i : uses[static_cast<size_t>(acquire.local)].in[list]->first;
    insertions_[list].before(from, std::move(acquire));
  }
}

}  // namespace

void write_into_slots(const Model& model, Part& part) { InSlots(model, part).run(); }

}  // namespace kerf::partitioner
