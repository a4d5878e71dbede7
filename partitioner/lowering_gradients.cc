#include <algorithm>
#include <set>

#include "partitioner/call_needs.h"
#include "partitioner/lowering.h"

namespace kerf::partitioner {

using ops::Box;
using Kind = Instruction::Kind;

// I, W, and B made of their instructions: all of I and then all of W, so that what leaves the stage
// leaves first; or node by node, so that few gradients of outputs live at once.
void Lowering::add_gradients(bool interleaved) {
  prepare_sums();
  std::vector<Instruction>& both = to_.backward.instructions;
  const std::vector<Instruction>& weights = to_.weight_gradient.instructions;
  size_t taken = 0;
  for (int call = static_cast<int>(to_.calls.size()) - 1; call >= 0; --call) {
    differentiate(call);
    for (; taken < input_gradient().size(); ++taken) both.push_back(input_gradient()[taken]);
    if (weight_gradient(call) && interleaved) both.push_back(weights.back());
  }
  if (!interleaved) both.insert(both.end(), weights.begin(), weights.end());
}

// What a sum of gradients is made of, in order.
std::vector<Term> Lowering::gradient_terms(ValueId value, const Sum& sum) const {
  std::vector<Term> terms;
  for (const Source& source : sum.terms) {
    Term term;
    term.box = source.box;
    term.contributions = source.contributions;
    if (source.part != part_) {
      const Route* route = routes_.find(value, true, source.leg, source.part, part_);
      KERF_CHECK(route != nullptr, "no route brings the gradient of {} from part {} to {}",
                 model_.value(value).name, source.part, part_);
      const auto piece = std::find(route->pieces.begin(), route->pieces.end(),
                                   Piece{source.box, source.contributions});
      KERF_CHECK(piece != route->pieces.end(), "route {} lacks a piece", route->id);
      term.route = route->id;
      term.piece = static_cast<int>(piece - route->pieces.begin());
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

// Which sums this part makes: the gradient of every box that it holds, and those that it sends
// ready summed.
void Lowering::prepare_sums() {
  std::set<ValueId> values;
  for (const auto& [value, local] : produced_)
    if (sources_.differentiable(value) && model_.value(value).producer != model_.loss())
      values.insert(value);
  std::vector<const Route*> sent = routes_.sent(part_, true);
  std::erase_if(sent, [&](const Route* route) { return is_of_step(model_, *route); });
  for (const Route* route : sent) values.insert(route->value);
  for (const ValueId value : values) prepare_sums_of(value);
  for (const Route* route : sent) prepare_outgoing(*route);
  note_consumers();
}

void Lowering::prepare_sums_of(ValueId value) {
  for (const Sum& sum : all_sums_.of(value, true)) {
    if (sum.part != part_) continue;
    const int number = static_cast<int>(sums_.size());
    if (sum.kind == Sum::Kind::kNeeded) own_sum_[value] = number;
    if (sum.kind == Sum::Kind::kSlice) slice_sum_[value] = number;
    sums_.emplace_back(value, LocalKind::kGradient, sum.box, gradient_terms(value, sum),
                       sources_.shape(value), selections_);
    planned_.push_back(&sum);
    sums_of_[value].push_back(number);
  }
}

// The sum of which this part sends the piece; -1 if it is one contribution as it is.
int Lowering::sum_of(const Route& route, const Piece& piece) const {
  if (route.leg == Leg::kAllGather) return slice_sum_.at(route.value);
  if (piece.contributions.size() == 1) return -1;
  for (const int number : sums_of_.at(route.value)) {
    const Sum& sum = *planned_[static_cast<size_t>(number)];
    if (sum.kind == Sum::Kind::kRunning && sum.box.contains(piece.box) &&
        sum.contributions() == piece.contributions)
      return number;
  }
  KERF_CHECK(false, "nothing sums what route {} carries", route.id);
}

void Lowering::prepare_outgoing(const Route& route) {
  Outgoing outgoing;
  outgoing.route = route.id;
  for (const Piece& piece : route.pieces) outgoing.sums.push_back(sum_of(route, piece));
  outgoing_of_[route.value].push_back(static_cast<int>(outgoing_.size()));
  outgoing_.push_back(std::move(outgoing));
}

void Lowering::note_consumers() {
  for (size_t sum = 0; sum < sums_.size(); ++sum)
    for (size_t i = 0; i < sums_[sum].terms().size(); ++i) {
      const Term& term = sums_[sum].terms()[i];
      const TermPlace place{static_cast<int>(sum), i};
      if (term.route >= 0)
        awaiting_[{term.route, term.piece}].push_back(place);
      else if (planned_[sum]->terms[i].leg != Leg::kAllGather)  // which is a slice summed here
        consumers_[{term.contributions[0].use.node, term.contributions[0].use.input}]
            .terms.push_back(place);
    }
  for (const Outgoing& outgoing : outgoing_) {
    const Route& route = plan_.routes[static_cast<size_t>(outgoing.route)];
    for (size_t i = 0; i < route.pieces.size(); ++i)
      if (const Use& use = route.pieces[i].contributions[0].use; outgoing.sums[i] < 0)
        consumers_[{use.node, use.input}].sent = true;
  }
}

Contribution Lowering::contribution_of(const LocalCall& call, size_t input) const {
  const auto index = static_cast<int>(&call - to_.calls.data());
  return {{call.node, static_cast<int>(input)}, computation_of_.at(index)->box_number};
}

// The I part of one call: its outputs' gradients, the gradients of its inputs, and what they
// complete.
void Lowering::differentiate(int index) {
  LocalCall& call = to_.calls[static_cast<size_t>(index)];
  const Node& node = model_.node(call.node);
  std::vector<int> output_gradients;
  for (const ValueId output : node.outputs) {
    output_gradients.push_back(own_sum_.contains(output) ? finish_own(output) : -1);
  }
  if (!sources_.reaches_loss(call.node)) return;
  call.output_gradients = output_gradients;

  Instruction gradient;
  gradient.kind = Kind::kGradient;
  gradient.call = index;
  const bool aliases = shares_memory(model_, call.node);
  std::vector<ValueId> changed;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId value = node.inputs[k];
    if (!model_.op(call.node).inputs()[k].in_input_gradient()) continue;
    if (box_of(call.inputs[k]).empty() || !sources_.differentiable(value)) continue;
    const auto consumers = consumers_.find({call.node, static_cast<int>(k)});
    if (consumers == consumers_.end()) continue;
    const int local = target_of(contribution_of(call, k), value, box_of(call.inputs[k]),
                                aliases ? call.output_gradients[0] : -1);
    contribution_local_[{call.node, static_cast<int>(k)}] = local;
    for (const auto& [sum, term] : consumers->second.terms)
      sums_[static_cast<size_t>(sum)].computed(term, local);
    gradient.targets.push_back({static_cast<int>(k), local});
    changed.push_back(value);
  }
  if (!aliases && (!gradient.targets.empty() || call.handed > 0))
    input_gradient().push_back(std::move(gradient));
  for (const ValueId value : changed) settle(value);
}

// Where the kernel writes this contribution. Straight into the sum that it begins, unless somebody
// else reads it, too.
int Lowering::target_of(const Contribution& contribution, ValueId value, const Box& box,
                        int alias_of) {
  if (alias_of >= 0) {
    const int local = add_local(model_, to_, value, LocalKind::kGradient, box);
    to_.locals[static_cast<size_t>(local)].storage = Storage::kAlias;
    to_.locals[static_cast<size_t>(local)].alias_of = alias_of;
    return local;
  }
  const Consumers& consumers = consumers_.at({contribution.use.node, contribution.use.input});
  if (consumers.terms.size() == 1 && !consumers.sent) {
    Assembly& sum = sums_[static_cast<size_t>(consumers.terms[0].first)];
    if (sum.begins_with(contribution, box)) return sum.begin(model_, to_);
  }
  return add_local(model_, to_, value, LocalKind::kGradient, box);
}

// Adds what is there to the sums, and sends what is complete. What others add to a sum that is sent
// on comes from stages whose backward pass ran before: it need not be awaited.
void Lowering::settle(ValueId value) {
  for (const int sum : sums_of_[value])
    if (planned_[static_cast<size_t>(sum)]->kind == Sum::Kind::kRunning)
      add_ready(sum);
    else
      sums_[static_cast<size_t>(sum)].advance(model_, to_, input_gradient());
  send_ready(value);
}

void Lowering::send_ready(ValueId value) {
  for (const int number : outgoing_of_[value]) {
    Outgoing& outgoing = outgoing_[static_cast<size_t>(number)];
    const Route& route = plan_.routes[static_cast<size_t>(outgoing.route)];
    if (outgoing.sent) continue;
    Instruction send;
    send.kind = Kind::kSend;
    send.route = route.id;
    for (size_t i = 0; i < route.pieces.size(); ++i) {
      const Piece& piece = route.pieces[i];
      int local = -1;
      if (outgoing.sums[i] >= 0) {
        const Assembly& sum = sums_[static_cast<size_t>(outgoing.sums[i])];
        if (sum.done()) local = sum.local();
      } else {
        const Use& use = piece.contributions[0].use;
        const auto found = contribution_local_.find({use.node, use.input});
        if (found != contribution_local_.end()) local = found->second;
      }
      if (local < 0) break;
      send.moves.push_back(move_of(selections_, to_, local, piece.box, false));
    }
    if (send.moves.size() < route.pieces.size()) continue;
    outgoing.sent = true;
    input_gradient().push_back(std::move(send));
  }
}

// Every use of a parameter has its own accumulator, but for uses of one node's pieces. Whether
// there is anything to do.
bool Lowering::weight_gradient(int index) {
  const LocalCall& call = to_.calls[static_cast<size_t>(index)];
  const Node& node = model_.node(call.node);
  if (call.output_gradients.empty()) return false;
  Instruction gradient;
  gradient.kind = Kind::kGradient;
  gradient.call = index;
  gradient.weights = true;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (!model_.op(call.node).inputs()[k].in_weight_gradient()) continue;
    if (box_of(call.inputs[k]).empty()) continue;
    const Use use = sources_.accumulated_with({call.node, static_cast<int>(k)});
    const auto [found, fresh] = accumulators_.try_emplace({use.node, use.input}, -1);
    if (fresh) {
      found->second = add_local(model_, to_, node.inputs[k], LocalKind::kParameterGradient,
                                box_of(call.inputs[k]));
      to_.locals[static_cast<size_t>(found->second)].passing = to_.single_pass;
    }
    const int local = found->second;
    gradient.targets.push_back({static_cast<int>(k), local});
  }
  if (gradient.targets.empty()) return false;
  to_.weight_gradient.instructions.push_back(std::move(gradient));
  return true;
}

}  // namespace kerf::partitioner
