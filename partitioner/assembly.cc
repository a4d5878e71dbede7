#include "partitioner/assembly.h"

#include <algorithm>

#include "partitioner/disjoint_boxes.h"

namespace kerf::partitioner {
namespace {

using ops::Box;

int64_t elements(const Box& box, const ops::Shape& shape) {
  return ops::local_shape(box, shape).elements();
}

}  // namespace

int add_local(const Model& model, Part& part, ValueId value, LocalKind kind, const Box& box) {
  Local local;
  local.value = value;
  local.kind = kind;
  local.box = box;
  local.whole = model.value(value).spec;
  part.locals.push_back(std::move(local));
  return static_cast<int>(part.locals.size()) - 1;
}

Move move_of(ops::Selections& selections, const Part& part, int local, const Box& piece, bool add) {
  const Local& holder = part.locals[static_cast<size_t>(local)];
  const ops::Shape& shape = holder.whole.shape;
  Move move{.local = local, .add = add};
  move.whole = !piece.empty() && (holder.box == piece || ops::normalized(holder.box, shape) ==
                                                             ops::normalized(piece, shape));
  if (part.times_only)
    move.piece = piece;
  else
    move.selection = selections.of(holder.box, piece, holder.whole);
  return move;
}

Assembly::Assembly(ValueId value, LocalKind kind, Box box, std::vector<Term> terms,
                   const ops::Shape& shape, ops::Selections& selections)
    : value_(value),
      kind_(kind),
      box_(std::move(box)),
      terms_(std::move(terms)),
      selections_(&selections) {
  choose_writes(shape);
}

// The first term to touch an element overwrites it, later ones add; where a term does both, and
// where elements stay untouched, the result begins as zero.
void Assembly::choose_writes(const ops::Shape& shape) {
  int64_t covered = 0;
  bool mixed = false;
  const bool apart = boxes_follow_one_another(terms_);
  for (size_t i = 0; i < terms_.size(); ++i) {
    Term& term = terms_[i];
    bool within = i > 0 && term.box == terms_[0].box;  // nearly always, however many there are
    term.add = within;
    for (size_t j = 0; j < i && !within && !apart; ++j) {
      term.add = term.add || !ops::intersect(terms_[j].box, term.box).empty();
      within = within || terms_[j].box.contains(term.box);
    }
    if (!term.add) covered += elements(term.box, shape);
    mixed = mixed || (term.add && !within);
  }
  zero_first_ = mixed || covered < elements(box_, shape);
  if (mixed)
    for (Term& term : terms_) term.add = true;
}

bool Assembly::begins_with(const Contribution& first, const Box& box) const {
  return local_ < 0 && !zero_first_ && terms_.size() > 1 && terms_[0].route < 0 &&
         terms_[0].contributions == std::vector{first} && terms_[0].box == box_ && box == box_;
}

int Assembly::begin(const Model& model, Part& part) {
  local_ = add_local(model, part, value_, kind_, box_);
  return local_;
}

void Assembly::start(const Model& model, Part& part, std::vector<Instruction>& list) {
  if (local_ >= 0) return;
  local_ = add_local(model, part, value_, kind_, box_);
  if (!zero_first_) return;
  Instruction zero;
  zero.kind = Instruction::Kind::kZero;
  zero.local = local_;
  list.push_back(std::move(zero));
}

void Assembly::advance(const Model& model, Part& part, std::vector<Instruction>& list) {
  for (; next_ < terms_.size() && terms_[next_].local >= 0; ++next_) {
    const Term& term = terms_[next_];
    if (term.local == local_) continue;
    if (sole(part.locals[static_cast<size_t>(term.local)].box)) {
      local_ = term.local;
      continue;
    }
    start(model, part, list);
    Instruction copy;
    copy.kind = Instruction::Kind::kCopy;
    copy.moves = {move_of(*selections_, part, term.local, term.box, false),
                  move_of(*selections_, part, local_, term.box, term.add)};
    list.push_back(std::move(copy));
  }
}

void Assembly::receive(const Model& model, Part& part, const Route& route,
                       std::vector<Instruction>& list) {
  Instruction receive;
  receive.kind = Instruction::Kind::kReceive;
  receive.route = route.id;
  if (route.pieces.size() == 1 && sole(route.pieces[0].box)) {
    receive.local = local_ = add_local(model, part, value_, kind_, box_);
    part.locals[static_cast<size_t>(local_)].storage = Storage::kReceived;
    part.locals[static_cast<size_t>(local_)].route = route.id;
    list.push_back(std::move(receive));
    ++next_;
    return;
  }
  start(model, part, list);
  for (size_t piece = 0; piece < route.pieces.size(); ++piece) {
    const auto term = std::find_if(terms_.begin(), terms_.end(), [&](const Term& t) {
      return t.route == route.id && t.piece == static_cast<int>(piece);
    });
    KERF_CHECK(term != terms_.end(), "route {} brings a piece that nobody needs", route.id);
    if (is_next(static_cast<size_t>(term - terms_.begin()))) {
      receive.moves.push_back(take(model, part, list));
    } else {  // its turn comes later: keep it until then
      term->local = add_local(model, part, value_, kind_, term->box);
      receive.moves.push_back(move_of(*selections_, part, term->local, term->box, false));
    }
  }
  list.push_back(std::move(receive));
}

Move Assembly::take(const Model& model, Part& part, std::vector<Instruction>& list) {
  start(model, part, list);
  const Term& term = terms_[next_++];
  return move_of(*selections_, part, local_, term.box, term.add);
}

int Assembly::finish(const Model& model, Part& part, const std::vector<Route>& routes,
                     std::vector<Instruction>& list) {
  advance(model, part, list);
  while (!done()) {
    const int route = terms_[next_].route;
    KERF_CHECK(route >= 0, "a term of {} was never computed", model.value(value_).name);
    receive(model, part, routes[static_cast<size_t>(route)], list);
    advance(model, part, list);
  }
  start(model, part, list);
  return local_;
}

}  // namespace kerf::partitioner
