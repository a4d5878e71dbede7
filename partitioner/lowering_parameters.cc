// What becomes of parameters once a step: gradients summed into homes and measured, the update, and
// what other parts read of them.
#include <algorithm>
#include <utility>

#include "partitioner/lowering.h"

namespace kerf::partitioner {

using Kind = Instruction::Kind;

void Lowering::add_parameters() {
  add_step_locals();
  for (const Route* route : routes_.sent(part_, true))
    if (is_of_step(model_, *route) && route->value != kStepVector) contribute(*route);
  for (const ValueId value : model_.parameters()) {
    if (sources_.held(value, part_) != nullptr && sources_.differentiable(value))
      update_home(value);
    if (sources_.has_read_copy(value, part_)) fetch(value);
  }
  update_states();
  clear_accumulators();
  if (to_.updates_within()) update_within_step();
  exchange_step();
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
                   sources_.shape(route.value), selections_);
      local = sum.finish(model_, to_, plan_.routes, list);
    }
    send.moves.push_back(move_of(selections_, to_, local, piece.box, false));
  }
  list.push_back(std::move(send));
}

void Lowering::update_home(ValueId value) {
  const int home = home_of(value);
  Instruction update;
  update.kind = Kind::kUpdate;
  update.local = home;
  update.other = sum_at_home(value, home);
  measure(update.other, value);
  to_.update.instructions.push_back(std::move(update));
  publish(value, home);
}

// The local that is the gradient of the home: it outlives the list that makes it, because the
// update waits for what all parts have summed. Where the first term is an accumulator of the home's
// box, it takes the others in.
int Lowering::sum_at_home(ValueId value, int home) {
  std::vector<Instruction>& list = to_.reduce.instructions;
  std::vector<Term> terms = gradient_terms(value, *all_sums_.needed(value, true, part_));
  for (Term& term : terms)
    if (term.route < 0) {
      const Use& use = term.contributions[0].use;
      term.local = accumulators_.at({use.node, use.input});
    }
  const auto before = static_cast<int>(to_.locals.size());
  Assembly sum(value, LocalKind::kGradient, box_of(home), std::move(terms), sources_.shape(value),
               selections_);
  if (const Term& first = sum.terms().front();
      first.route < 0 && sum.begins_with(first.contributions[0], box_of(first.local)))
    sum.begin_in(first.local);
  const int local = sum.finish(model_, to_, plan_.routes, list);
  if (local < before) return local;
  Local& gradient = to_.locals[static_cast<size_t>(local)];
  gradient.kind = LocalKind::kHomeGradient;
  gradient.passing = to_.single_pass;
  if (gradient.storage != Storage::kReceived) return local;
  // A message does not outlive its list either.
  gradient.storage = Storage::kOwn;
  gradient.route = -1;
  Instruction& receive = list.back();
  receive.local = -1;
  receive.moves = {move_of(selections_, to_, local, gradient.box, false)};
  return local;
}

// The home's new contents to this part's own read copy, and to others'.
void Lowering::publish(ValueId value, int home) {
  std::vector<Instruction>& list = to_.update.instructions;
  if (sources_.has_read_copy(value, part_)) {
    const ops::Box mine = ops::normalized(
        ops::intersect(box_of(home), *sources_.need(value, part_)), sources_.shape(value));
    Instruction copy;
    copy.kind = Kind::kCopy;
    copy.moves = {move_of(selections_, to_, home, mine, false),
                  move_of(selections_, to_, base_of(value), mine, false)};
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
      receive.moves.push_back(move_of(selections_, to_, base_of(value), piece.box, false));
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
      measure(update.other, model_.node(call.node).inputs[static_cast<size_t>(state.input)]);
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

// Nobody else sums or reads what this part updates.
void Lowering::check_alone_with_weights() const {
  const auto refuse = [&](ValueId value, const std::string& why) {
    throw Error(ErrorCode::kUsage,
                format("{} {}, and where weights are updated within a step nobody waits for "
                       "another's: choose a cut that has each on one part (layer, or feature), or "
                       "a schedule that updates at the step's end",
                       model_.value(value).name, why));
  };
  for (const ValueId value : model_.parameters())
    for (const bool gradient : {false, true})
      for (const RouteIndex::Routes& routes :
           {routes_.sent(part_, gradient, value), routes_.received(part_, gradient, value)})
        for (const Route* route : routes)
          refuse(value, format("is shared by parts {} and {}", std::min(route->from, route->to),
                               std::max(route->from, route->to)));
  const std::string in_pieces = format("is read by part {} in several pieces", part_);
  for (const auto& [value, home] : homes_) refuse(value, in_pieces);
  for (const auto& [slice, local] : slices_)
    if (model_.value(slice.first).role == Role::kParameter) refuse(slice.first, in_pieces);
}

// All that an update does, with what this part alone says of it: a step vector of its own.
void Lowering::update_within_step() {
  check_alone_with_weights();
  std::vector<Instruction>& apply = to_.apply.instructions;
  apply = std::exchange(to_.reduce.instructions, {});
  if (member() != nullptr) {
    Instruction conclude;
    conclude.kind = Kind::kConclude;
    conclude.local = to_.step_share;
    conclude.other = to_.step_result;
    apply.push_back(std::move(conclude));
  }
  for (Instruction& each : std::exchange(to_.update.instructions, {}))
    apply.push_back(std::move(each));
}

}  // namespace kerf::partitioner
