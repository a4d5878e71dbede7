#include <algorithm>

#include "partitioner/call_needs.h"
#include "partitioner/lowering.h"

namespace kerf::partitioner {

using ops::Box;
using Kind = Instruction::Kind;

// I, W, and B made of their instructions: all of I and then all of W, so that what leaves the stage
// leaves first; or node by node, so that few gradients of outputs live at once.
void Lowering::add_gradients() {
  prepare_sums();
  std::vector<Instruction>& both = to_.backward.instructions;
  const std::vector<Instruction>& weights = to_.weight_gradient.instructions;
  const bool interleaved = interleaves(plan_, routes_, to_.stage);
  size_t taken = 0;
  for (int call = static_cast<int>(to_.calls.size()) - 1; call >= 0; --call) {
    differentiate(call);
    for (; taken < input_gradient().size(); ++taken) both.push_back(input_gradient()[taken]);
    if (weight_gradient(call) && interleaved) both.push_back(weights.back());
  }
  if (!interleaved) both.insert(both.end(), weights.begin(), weights.end());
}

// What the gradient of a value's box on this part is summed from, in order.
std::vector<Term> Lowering::gradient_terms(ValueId value) const {
  std::vector<Term> terms;
  for (const Source& source : sources_.of_gradient(value, part_)) {
    Term term;
    term.box = source.box;
    term.contributions = source.contributions;
    if (source.part != part_) {
      const Route* route = routes_.find(value, true, source.part, part_);
      KERF_CHECK(route != nullptr, "no route brings the gradient of {} from part {} to {}",
                 model_.value(value).name, source.part, part_);
      const auto piece =
          std::find_if(route->pieces.begin(), route->pieces.end(), [&](const Piece& p) {
            return std::find(p.contributions.begin(), p.contributions.end(),
                             source.contributions[0]) != p.contributions.end();
          });
      KERF_CHECK(piece != route->pieces.end(), "route {} lacks a contribution", route->id);
      term.route = route->id;
      term.piece = static_cast<int>(piece - route->pieces.begin());
      term.box = piece->box;
      term.contributions = piece->contributions;
      if (!terms.empty() && terms.back().route == term.route && terms.back().piece == term.piece)
        continue;  // another summand of the same piece
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

// Which sums this part makes: the gradient of every box that it holds, and those that it sends
// ready summed.
void Lowering::prepare_sums() {
  for (const auto& [value, local] : produced_) {
    if (!sources_.differentiable(value) || model_.value(value).producer == model_.loss()) continue;
    own_sum_[value] = add_sum(value, box_of(local), gradient_terms(value));
  }
  for (const Route* route : routes_.sent(part_, true))
    if (!is_of_step(model_, *route)) prepare_outgoing(*route);
  note_consumers();
}

int Lowering::add_sum(ValueId value, const Box& box, std::vector<Term> terms) {
  const int number = static_cast<int>(sums_.size());
  sums_.emplace_back(value, LocalKind::kGradient, box, std::move(terms), sources_.shape(value));
  sums_of_[value].push_back(number);
  return number;
}

void Lowering::note_consumers() {
  const auto consumers = [&](const Contribution& contribution) -> Consumers& {
    return consumers_[{contribution.use.node, contribution.use.input}];
  };
  for (size_t sum = 0; sum < sums_.size(); ++sum)
    for (size_t i = 0; i < sums_[sum].terms().size(); ++i)
      if (const Term& term = sums_[sum].terms()[i]; term.route < 0)
        consumers(term.contributions[0]).terms.emplace_back(static_cast<int>(sum), i);
  for (const Outgoing& outgoing : outgoing_)
    for (const Piece& piece : plan_.routes[static_cast<size_t>(outgoing.route)].pieces)
      if (piece.contributions.size() == 1) consumers(piece.contributions[0]).sent = true;
}

void Lowering::prepare_outgoing(const Route& route) {
  Outgoing outgoing;
  outgoing.route = route.id;
  for (const Piece& piece : route.pieces) {
    outgoing.sums.push_back(-1);
    if (piece.contributions.size() == 1) continue;
    std::vector<Term> terms;
    Box hull = piece.box;
    // Receivers of the same sum share one tensor.
    for (const Route* other : routes_.sent(part_, true, route.value))
      for (const Piece& p : other->pieces)
        if (p.contributions == piece.contributions) hull = ops::hull(hull, p.box);
    hull = ops::normalized(hull, sources_.shape(route.value));
    for (const Contribution& contribution : piece.contributions) {
      Term term;
      const int call = call_of_.at(contribution.use.node);
      const auto input = static_cast<size_t>(contribution.use.input);
      term.box = ops::intersect(computation_of_.at(call)->inputs[input], hull);
      term.box = ops::normalized(term.box, sources_.shape(route.value));
      term.contributions = {contribution};
      terms.push_back(std::move(term));
    }
    const auto same = [&](int number) {
      const Assembly& sum = sums_[static_cast<size_t>(number)];
      return sum.box().contains(hull) &&
             std::equal(sum.terms().begin(), sum.terms().end(), terms.begin(), terms.end(),
                        [](const Term& a, const Term& b) {
                          return a.route == b.route && a.contributions == b.contributions;
                        });
    };
    const std::vector<int>& known = sums_of_[route.value];
    const auto found = std::find_if(known.begin(), known.end(), same);
    outgoing.sums.back() =
        found == known.end() ? add_sum(route.value, hull, std::move(terms)) : *found;
  }
  outgoing_of_[route.value].push_back(static_cast<int>(outgoing_.size()));
  outgoing_.push_back(std::move(outgoing));
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
  const bool loss = call.node == model_.loss();
  std::vector<int> output_gradients;
  for (const ValueId output : node.outputs) {
    const auto sum = own_sum_.find(output);
    output_gradients.push_back(sum == own_sum_.end()
                                   ? -1
                                   : sums_[static_cast<size_t>(sum->second)].finish(
                                         model_, to_, plan_.routes, input_gradient()));
  }
  const bool reached = std::any_of(output_gradients.begin(), output_gradients.end(),
                                   [](int local) { return local >= 0; });
  if (!reached && !(loss && sources_.differentiable(node.outputs[0]))) return;
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

// Adds what is there to the sums, and sends what is complete.
void Lowering::settle(ValueId value) {
  for (const int sum : sums_of_[value])
    sums_[static_cast<size_t>(sum)].advance(model_, to_, input_gradient());
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
      send.moves.push_back(move_of(model_, to_, local, piece.box, false));
    }
    if (send.moves.size() < route.pieces.size()) continue;
    outgoing.sent = true;
    input_gradient().push_back(std::move(send));
  }
}

// Every use of a parameter has its own accumulator. Whether there is anything to do.
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
    const int local = add_local(model_, to_, node.inputs[k], LocalKind::kParameterGradient,
                                box_of(call.inputs[k]));
    accumulators_[{call.node, static_cast<int>(k)}] = local;
    gradient.targets.push_back({static_cast<int>(k), local});
  }
  if (gradient.targets.empty()) return false;
  to_.weight_gradient.instructions.push_back(std::move(gradient));
  return true;
}

}  // namespace kerf::partitioner
