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
  const bool interleaved = interleaves(plan_, to_.stage);
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
      const Route* route = find_route(value, true, source.part, part_);
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
    own_sum_[value] = static_cast<int>(sums_.size());
    sums_.emplace_back(value, LocalKind::kGradient, box_of(local), gradient_terms(value),
                       sources_.shape(value));
  }
  for (const Route& route : plan_.routes)
    if (route.gradient && route.from == part_ && !is_of_step(model_, route))
      prepare_outgoing(route);
}

void Lowering::prepare_outgoing(const Route& route) {
  Outgoing outgoing;
  outgoing.route = route.id;
  for (const Piece& piece : route.pieces) {
    outgoing.sums.push_back(-1);
    if (piece.contributions.size() == 1) continue;
    std::vector<Term> terms;
    Box hull = piece.box;
    for (const Route& other : plan_.routes)  // receivers of the same sum share one tensor
      for (const Piece& p : other.pieces)
        if (other.value == route.value && other.from == part_ &&
            p.contributions == piece.contributions)
          hull = ops::hull(hull, p.box);
    hull = ops::normalized(hull, sources_.shape(route.value));
    for (const Contribution& contribution : piece.contributions)
      for (size_t call = 0; call < to_.calls.size(); ++call) {
        if (to_.calls[call].node != contribution.use.node) continue;
        Term term;
        const auto input = static_cast<size_t>(contribution.use.input);
        term.box = ops::intersect(computation_of_.at(static_cast<int>(call))->inputs[input], hull);
        term.box = ops::normalized(term.box, sources_.shape(route.value));
        term.contributions = {contribution};
        terms.push_back(std::move(term));
      }
    const auto same = [&](const Assembly& sum) {
      return sum.value() == route.value && sum.box().contains(hull) &&
             std::equal(sum.terms().begin(), sum.terms().end(), terms.begin(), terms.end(),
                        [](const Term& a, const Term& b) {
                          return a.route == b.route && a.contributions == b.contributions;
                        });
    };
    auto found = std::find_if(sums_.begin(), sums_.end(), same);
    outgoing.sums.back() = static_cast<int>(found - sums_.begin());
    if (found == sums_.end())
      sums_.emplace_back(route.value, LocalKind::kGradient, hull, std::move(terms),
                         sources_.shape(route.value));
  }
  outgoing_.push_back(std::move(outgoing));
}

Contribution Lowering::contribution_of(const LocalCall& call, size_t input) const {
  const auto index = static_cast<int>(&call - to_.calls.data());
  return {{call.node, static_cast<int>(input)}, computation_of_.at(index)->box_number};
}

Lowering::Consumers Lowering::consumers_of(ValueId value, const Contribution& contribution) const {
  Consumers consumers;
  for (size_t sum = 0; sum < sums_.size(); ++sum)
    for (const Term& term : sums_[sum].terms())
      if (term.route < 0 && term.contributions == std::vector{contribution})
        consumers.sums.push_back(static_cast<int>(sum));
  for (const Outgoing& outgoing : outgoing_) {
    const Route& route = plan_.routes[static_cast<size_t>(outgoing.route)];
    for (const Piece& piece : route.pieces)
      if (route.value == value && piece.contributions == std::vector{contribution})
        consumers.sent = true;
  }
  return consumers;
}

// The I part of one call: its outputs' gradients, the gradients of its inputs, and what they
// complete.
void Lowering::differentiate(int index) {
  LocalCall& call = to_.calls[static_cast<size_t>(index)];
  const Node& node = model_.node(call.node);
  std::vector<int> output_gradients;
  for (const ValueId output : node.outputs) {
    const auto sum = own_sum_.find(output);
    output_gradients.push_back(sum == own_sum_.end()
                                   ? -1
                                   : sums_[static_cast<size_t>(sum->second)].finish(
                                         model_, to_, plan_.routes, input_gradient()));
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
    const Contribution contribution = contribution_of(call, k);
    if (consumers_of(value, contribution).none()) continue;
    const int local = target_of(contribution, value, box_of(call.inputs[k]),
                                aliases ? call.output_gradients[0] : -1);
    contribution_local_[{call.node, static_cast<int>(k)}] = local;
    for (Assembly& sum : sums_) sum.computed(contribution, local);
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
  const Consumers consumers = consumers_of(value, contribution);
  if (consumers.sums.size() == 1 && !consumers.sent) {
    Assembly& sum = sums_[static_cast<size_t>(consumers.sums[0])];
    if (sum.begins_with(contribution, box)) return sum.begin(model_, to_);
  }
  return add_local(model_, to_, value, LocalKind::kGradient, box);
}

// Adds what is there to the sums, and sends what is complete.
void Lowering::settle(ValueId value) {
  for (Assembly& sum : sums_) sum.advance(model_, to_, input_gradient());
  for (Outgoing& outgoing : outgoing_) {
    const Route& route = plan_.routes[static_cast<size_t>(outgoing.route)];
    if (outgoing.sent || route.value != value) continue;
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
