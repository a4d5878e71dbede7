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
  updates();
}

// Which sums this part makes: the gradient of every box that it holds, and those that it sends
// ready summed.
void Lowering::prepare_sums() {
  for (const auto& [value, local] : produced_) {
    if (!sources_.differentiable(value) || model_.value(value).producer == model_.loss()) continue;
    std::vector<Term> terms;
    for (const Source& source : sources_.of_gradient(value, part_)) {
      Term term;
      term.box = source.box;
      term.contributions = {source.contribution};
      if (source.part != part_) {
        const Route* route = find_route(value, true, source.part, part_);
        KERF_CHECK(route != nullptr, "no route brings the gradient of {} from part {} to {}",
                   model_.value(value).name, source.part, part_);
        const auto piece =
            std::find_if(route->pieces.begin(), route->pieces.end(), [&](const Piece& p) {
              return std::find(p.contributions.begin(), p.contributions.end(),
                               source.contribution) != p.contributions.end();
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
    own_sum_[value] = static_cast<int>(sums_.size());
    sums_.emplace_back(model_, value, LocalKind::kGradient, box_of(local), std::move(terms));
  }
  for (const Route& route : plan_.routes)
    if (route.gradient && route.from == part_) prepare_outgoing(route);
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
    hull = ops::normalized(hull, model_.value(route.value).spec.shape);
    for (const Contribution& contribution : piece.contributions)
      for (size_t call = 0; call < to_.calls.size(); ++call) {
        if (to_.calls[call].node != contribution.use.node) continue;
        Term term;
        const auto input = static_cast<size_t>(contribution.use.input);
        term.box =
            ops::intersect(computation_of_.at(static_cast<int>(call))->inputs[input].box, hull);
        term.box = ops::normalized(term.box, model_.value(route.value).spec.shape);
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
      sums_.emplace_back(model_, route.value, LocalKind::kGradient, hull, std::move(terms));
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

// The I part of one call: its output's gradient, the gradients of its inputs, and what they
// complete.
void Lowering::differentiate(int index) {
  LocalCall& call = to_.calls[static_cast<size_t>(index)];
  const Node& node = model_.node(call.node);
  if (!sources_.differentiable(node.outputs[0])) return;
  int output_gradient = -1;
  if (call.node != model_.loss())
    output_gradient = sums_[static_cast<size_t>(own_sum_.at(node.outputs[0]))].finish(
        model_, to_, plan_.routes, input_gradient());
  call.output_gradients = {output_gradient};

  Instruction gradient;
  gradient.kind = Kind::kGradient;
  gradient.call = index;
  const bool aliases = shares_memory(model_, call.node);
  std::vector<ValueId> reached;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId value = node.inputs[k];
    const Contribution contribution = contribution_of(call, k);
    if (!sources_.differentiable(value) || consumers_of(value, contribution).none()) continue;
    const int local =
        target_of(contribution, value, box_of(call.inputs[k]), aliases ? output_gradient : -1);
    contribution_local_[{call.node, static_cast<int>(k)}] = local;
    for (Assembly& sum : sums_) sum.computed(contribution, local);
    gradient.targets.push_back({static_cast<int>(k), local});
    reached.push_back(value);
  }
  if (!aliases && !gradient.targets.empty()) input_gradient().push_back(std::move(gradient));
  for (const ValueId value : reached) settle(value);
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

// Every use of a parameter has its own accumulator; U adds them up. Whether there is anything to do.
bool Lowering::weight_gradient(int index) {
  const LocalCall& call = to_.calls[static_cast<size_t>(index)];
  const Node& node = model_.node(call.node);
  if (call.output_gradients.empty()) return false;
  Instruction gradient;
  gradient.kind = Kind::kGradient;
  gradient.call = index;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (model_.value(node.inputs[k]).role != ValueRole::kParameter) continue;
    const int local = add_local(model_, to_, node.inputs[k], LocalKind::kParameterGradient,
                                box_of(call.inputs[k]));
    parameter_gradients_[node.inputs[k]].push_back(local);
    gradient.targets.push_back({static_cast<int>(k), local});
  }
  if (gradient.targets.empty()) return false;
  to_.weight_gradient.instructions.push_back(std::move(gradient));
  return true;
}

void Lowering::updates() {
  for (const auto& [parameter, gradients] : parameter_gradients_) {
    for (size_t i = 1; i < gradients.size(); ++i) {
      Instruction add;
      add.kind = Kind::kCopy;
      add.moves = {move_of(model_, to_, gradients[i], box_of(gradients[i]), false),
                   move_of(model_, to_, gradients[0], box_of(gradients[i]), true)};
      to_.update.instructions.push_back(std::move(add));
    }
    Instruction update;
    update.kind = Kind::kUpdate;
    update.local = base_.at(parameter);
    update.other = gradients[0];
    to_.update.instructions.push_back(std::move(update));
    for (const int accumulator : gradients) {
      Instruction clear;
      clear.kind = Kind::kClear;
      clear.local = accumulator;
      to_.update.instructions.push_back(std::move(clear));
    }
  }
}

}  // namespace kerf::partitioner
