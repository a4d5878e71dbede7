// What becomes of parameters once a step: gradients summed into homes, the update, and what other
// parts read of them.
#include <algorithm>

#include "partitioner/lowering.h"

namespace kerf::partitioner {

using Kind = Instruction::Kind;

void Lowering::add_parameters() {
  for (const Route* route : routes_.sent(part_, true))
    if (is_of_step(model_, *route)) contribute(*route);
  for (const ValueId value : model_.parameters()) {
    if (sources_.held(value, part_) != nullptr && sources_.differentiable(value))
      update_home(value);
    if (sources_.has_read_copy(value, part_)) fetch(value);
  }
  update_states();
  clear_accumulators();
}

// The local that is the master of the part's home box.
int Lowering::home_of(ValueId value) {
  if (!sources_.has_read_copy(value, part_) && sources_.need(value, part_) != nullptr)
    return base_of(value);
  const auto [found, fresh] = homes_.try_emplace(value, -1);
  if (fresh) {
    found->second =
        add_local(model_, to_, value, LocalKind::kHome, sources_.held(value, part_)->box);
    to_.locals[static_cast<size_t>(found->second)].trained = true;
  }
  return found->second;
}

// Sends what another part's home sums: accumulators, or the sum of several where this part has all.
void Lowering::contribute(const Route& route) {
  Instruction send;
  send.kind = Kind::kSend;
  send.route = route.id;
  std::vector<Instruction>& list = to_.contribute.instructions;
  for (const Piece& piece : route.pieces) {
    std::vector<Term> terms;
    for (const Contribution& contribution : piece.contributions) {
      Term term;
      term.local = accumulators_.at({contribution.use.node, contribution.use.input});
      term.box = ops::normalized(ops::intersect(box_of(term.local), piece.box),
                                 sources_.shape(route.value));
      term.contributions = {contribution};
      terms.push_back(std::move(term));
    }
    int local = terms[0].local;
    if (terms.size() > 1) {
      Assembly sum(route.value, LocalKind::kGradient, piece.box, std::move(terms),
                   sources_.shape(route.value));
      local = sum.finish(model_, to_, plan_.routes, list);
    }
    send.moves.push_back(move_of(model_, to_, local, piece.box, false));
  }
  list.push_back(std::move(send));
}

void Lowering::update_home(ValueId value) {
  std::vector<Instruction>& list = to_.update.instructions;
  std::vector<Term> terms = gradient_terms(value, *all_sums_.needed(value, true, part_));
  for (Term& term : terms)
    if (term.route < 0) {
      const Use& use = term.contributions[0].use;
      term.local = accumulators_.at({use.node, use.input});
    }
  const int home = home_of(value);
  Instruction update;
  update.kind = Kind::kUpdate;
  update.local = home;
  Assembly sum(value, LocalKind::kGradient, box_of(home), std::move(terms), sources_.shape(value));
  update.other = sum.finish(model_, to_, plan_.routes, list);
  list.push_back(std::move(update));
  publish(value, home);
}

// The home's new contents to this part's own read copy, and to others'.
void Lowering::publish(ValueId value, int home) {
  std::vector<Instruction>& list = to_.update.instructions;
  if (sources_.has_read_copy(value, part_)) {
    const ops::Box mine = ops::normalized(
        ops::intersect(box_of(home), *sources_.need(value, part_)), sources_.shape(value));
    Instruction copy;
    copy.kind = Kind::kCopy;
    copy.moves = {move_of(model_, to_, home, mine, false),
                  move_of(model_, to_, base_of(value), mine, false)};
    if (!mine.empty()) list.push_back(std::move(copy));
  }
  for (const Route* route : routes_.sent(part_, false, value))
    list.push_back(send_of(*route, home));
}

void Lowering::fetch(ValueId value) {
  for (const Route* route : routes_.received(part_, false, value)) {
    Instruction receive;
    receive.kind = Kind::kReceive;
    receive.route = route->id;
    for (const Piece& piece : route->pieces)
      receive.moves.push_back(move_of(model_, to_, base_of(value), piece.box, false));
    to_.fetch.instructions.push_back(std::move(receive));
  }
}

void Lowering::update_states() {
  for (const LocalCall& call : to_.calls)
    for (const ops::StateUpdate& state : model_.op(call.node).state_updates()) {
      Instruction update;
      update.kind = Kind::kUpdateState;
      update.local = call.inputs[static_cast<size_t>(state.input)];
      update.other = call.outputs[static_cast<size_t>(state.output)];
      update.keep = state.keep;
      to_.update.instructions.push_back(std::move(update));
    }
}

void Lowering::clear_accumulators() {
  for (const auto& [use, local] : accumulators_) {
    Instruction clear;
    clear.kind = Kind::kClear;
    clear.local = local;
    to_.update.instructions.push_back(std::move(clear));
  }
}

}  // namespace kerf::partitioner
