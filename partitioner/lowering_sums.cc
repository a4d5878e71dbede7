// How sums of gradients get on: what was computed here is added as it comes, what others send when
// its turn has come.
#include "partitioner/lowering.h"

namespace kerf::partitioner {

using Kind = Instruction::Kind;

// Adds to a sum all that needs no term which this part has yet to compute.
void Lowering::add_ready(int number) {
  Assembly& sum = sums_[static_cast<size_t>(number)];
  sum.advance(model_, to_, input_gradient());
  while (!sum.done() && sum.next().route >= 0) {
    receive(plan_.routes[static_cast<size_t>(sum.next().route)]);
    sum.advance(model_, to_, input_gradient());
  }
}

int Lowering::finish(int number) {
  add_ready(number);
  Assembly& sum = sums_[static_cast<size_t>(number)];
  KERF_CHECK(sum.done(), "a term of the gradient of {} was never computed",
             model_.value(sum.value()).name);
  return sum.finish(model_, to_, plan_.routes, input_gradient());
}

// The gradient of what this part holds of a value; before it, the slice that others wait for.
int Lowering::finish_own(ValueId value) {
  const int own = own_sum_.at(value);
  if (const auto slice = slice_sum_.find(value); slice != slice_sum_.end()) {
    const int local = finish(slice->second);
    send_ready(value);
    const auto& terms = planned_[static_cast<size_t>(own)]->terms;
    for (size_t i = 0; i < terms.size(); ++i)
      if (terms[i].part == part_) sums_[static_cast<size_t>(own)].computed(i, local);
  }
  return finish(own);
}

// A message, whose pieces may be terms of several sums. A piece that only the next term of one sum
// reads is added where it lies; others are kept until their turn.
void Lowering::receive(const Route& route) {
  const auto readers = [&](size_t piece) -> const std::vector<TermPlace>& {
    return awaiting_.at({route.id, static_cast<int>(piece)});
  };
  if (const auto& all = readers(0); route.pieces.size() == 1 && all.size() == 1) {
    sums_[static_cast<size_t>(all[0].first)].receive(model_, to_, route, input_gradient());
    return;
  }
  Instruction receive;
  receive.kind = Kind::kReceive;
  receive.route = route.id;
  for (size_t piece = 0; piece < route.pieces.size(); ++piece) {
    Assembly& first = sums_[static_cast<size_t>(readers(piece)[0].first)];
    if (readers(piece).size() == 1 && first.is_next(readers(piece)[0].second)) {
      receive.moves.push_back(first.take(model_, to_, input_gradient()));
      continue;
    }
    const int local =
        add_local(model_, to_, route.value, LocalKind::kGradient, route.pieces[piece].box);
    receive.moves.push_back(move_of(selections_, to_, local, route.pieces[piece].box, false));
    for (const auto& [sum, term] : readers(piece))
      sums_[static_cast<size_t>(sum)].computed(term, local);
  }
  input_gradient().push_back(std::move(receive));
}

}  // namespace kerf::partitioner
