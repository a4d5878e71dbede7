// The step vector of one part: what it measures, sends, sums and hears.
#include <algorithm>

#include "partitioner/lowering.h"

namespace kerf::partitioner {

using Kind = Instruction::Kind;

const StepMember* Lowering::member() const {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const StepMember& each) { return each.part == part_; });
  return found == members_.end() ? nullptr : &*found;
}

void Lowering::add_step_locals() {
  if (member() == nullptr) return;
  const auto add = [&](int entries) {
    Local local;
    local.kind = LocalKind::kStep;
    local.box = ops::Box::whole(1);
    local.whole = StepVector::spec(entries);
    to_.locals.push_back(std::move(local));
    return static_cast<int>(to_.locals.size()) - 1;
  };
  to_.step_share = add(step_vector_.size());
  to_.step_result = add(StepVector::kResults);
}

// Where this part speaks for the value, or asks nobody else.
void Lowering::measure(int local, ValueId value) {
  Instruction measure;
  measure.kind = Kind::kMeasure;
  measure.local = local;
  measure.entry = step_vector_.norm_of(model_.value(value));
  if (to_.updates_within() || member()->says.contains(measure.entry))
    to_.reduce.instructions.push_back(std::move(measure));
}

Instruction Lowering::step_message(Kind kind, const Route& route, int local, bool add) {
  Instruction message;
  message.kind = kind;
  message.route = route.id;
  message.moves = {move_of(selections_, to_, local, route.pieces[0].box, add)};
  return message;
}

// Shares go to the root and add up there, the result comes from it before anything is updated.
// Every share begins at 0.
void Lowering::exchange_step() {
  if (member() == nullptr) return;
  const bool root = part_ == members_.front().part;
  std::vector<Instruction>& conclude = to_.conclude.instructions;
  const RouteIndex::Routes sent = routes_.sent(part_, true, kStepVector);
  const RouteIndex::Routes received = routes_.received(part_, true, kStepVector);
  std::vector<Instruction> results;
  for (const Route* route : sent)
    if (root)
      results.push_back(step_message(Kind::kSend, *route, to_.step_result, false));
    else
      to_.reduce.instructions.push_back(step_message(Kind::kSend, *route, to_.step_share, false));
  for (const Route* route : received)
    if (root)
      conclude.push_back(step_message(Kind::kReceive, *route, to_.step_share, true));
    else
      to_.update.instructions.insert(to_.update.instructions.begin(),
                                     step_message(Kind::kReceive, *route, to_.step_result, false));
  const size_t messages = sent.size() + received.size();
  size_t expected = 0;
  for (const StepMember& each : members_)
    if (each.part != members_.front().part && (root || each.part == part_))
      expected += (each.says.empty() ? 0 : 1) + (each.updates ? 1 : 0);
  KERF_CHECK(messages == expected, "part {} has {} routes of the step vector instead of {}", part_,
             messages, expected);
  if (root) {
    Instruction sum;
    sum.kind = Kind::kConclude;
    sum.local = to_.step_share;
    sum.other = to_.step_result;
    conclude.push_back(std::move(sum));
    conclude.insert(conclude.end(), results.begin(), results.end());
  }
  Instruction zero;
  zero.kind = Kind::kZero;
  zero.local = to_.step_share;
  (root ? to_.conclude : to_.reduce).instructions.push_back(std::move(zero));
}

}  // namespace kerf::partitioner
