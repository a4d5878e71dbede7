#include "partitioner/lowering.h"

#include <algorithm>

namespace kerf::partitioner {

using ops::Box;
using Kind = Instruction::Kind;

StagePart Lowering::run(int stage) {
  stage_.stage = stage;
  first_call_ = to_.calls.size();
  first_local_ = static_cast<int>(to_.locals.size());
  const auto& nodes = plan_.stages[static_cast<size_t>(stage)].nodes;
  for (const Computation& computation : sources_.computations())
    if (computation.part == part_ && !computation.box.empty() &&
        std::find(nodes.begin(), nodes.end(), computation.node) != nodes.end())
      add_call(computation, stage);
  prepare_sums();
  for (size_t call = to_.calls.size(); call-- > first_call_;) differentiate(static_cast<int>(call));
  weight_gradients();
  updates();
  std::vector<int> kept;
  for (const int local : {to_.loss, to_.scores, to_.labels})
    if (local >= first_local_) kept.push_back(local);
  place_lifetimes(model_, to_, stage_, kept);
  return std::move(stage_);
}

void Lowering::add_call(const Computation& computation, int stage) {
  const Node& node = model_.node(computation.node);
  const ops::Operator& op = model_.op(computation.node);
  LocalCall call;
  call.node = computation.node;
  call.stage = stage;
  call.box = computation.box;
  std::vector<ops::ValueSpec> one_sample;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    call.inputs.push_back(operand(node.inputs[k], computation.inputs[k].box));
    ops::ValueSpec spec = to_.locals[static_cast<size_t>(call.inputs.back())].spec;
    spec.shape = spec.shape.with_batch(1);
    one_sample.push_back(spec);
  }
  call.saved = op.saved_bytes(node.attributes, one_sample);
  for (const ValueId output : node.outputs) {
    const ops::Share* share = sources_.held(output, part_);
    KERF_CHECK(share != nullptr, "{} has no share on part {}", model_.value(output).name, part_);
    const int local = add_local(model_, to_, output, LocalKind::kActivation, share->box);
    call.outputs.push_back(local);
    produced_[output] = local;
  }
  if (op.aliases()) {
    Local& output = to_.locals[static_cast<size_t>(call.outputs[0])];
    output.storage = Storage::kAlias;
    output.alias_of = call.inputs[0];
  } else {
    Instruction forward;
    forward.kind = Kind::kForward;
    forward.call = static_cast<int>(to_.calls.size());
    stage_.forward.push_back(std::move(forward));
  }
  note_loss(call);
  computation_of_[static_cast<int>(to_.calls.size())] = &computation;
  to_.calls.push_back(std::move(call));
  for (const ValueId output : node.outputs) send_values(output);
}

void Lowering::note_loss(const LocalCall& call) {
  if (call.node != model_.loss()) return;
  to_.loss = call.outputs[0];
  to_.scores = call.inputs[0];
  if (call.inputs.size() > 1) to_.labels = call.inputs[1];
}

// The local tensor that holds exactly `box` of a value.
int Lowering::operand(ValueId value, const Box& box) {
  const int base = base_of(value);
  if (box_of(base) == box) return base;
  const auto [found, fresh] = slices_.try_emplace({value, ops::to_string(box)}, -1);
  if (!fresh) return found->second;
  const LocalKind kind = to_.locals[static_cast<size_t>(base)].kind;
  KERF_CHECK(kind != LocalKind::kParameter, "{} is read as {}, but held as {}",
             model_.value(value).name, ops::to_string(box), ops::to_string(box_of(base)));
  found->second = add_local(model_, to_, value, LocalKind::kActivation, box);
  Instruction slice;
  slice.kind = Kind::kCopy;
  slice.moves = {move_of(model_, to_, base, box, false),
                 move_of(model_, to_, found->second, box, false)};
  stage_.forward.push_back(std::move(slice));
  return found->second;
}

int Lowering::base_of(ValueId value) {
  const auto [found, fresh] = base_.try_emplace(value, -1);
  if (!fresh) return found->second;
  const ValueRole role = model_.value(value).role;
  if (role == ValueRole::kActivation) return found->second = gather(value);
  const ops::Share* share = sources_.held(value, part_);
  KERF_CHECK(share != nullptr, "{} is not laid out on part {}", model_.value(value).name, part_);
  const LocalKind kind = role == ValueRole::kParameter ? LocalKind::kParameter : LocalKind::kData;
  return found->second = add_local(model_, to_, value, kind, share->box);
}

// What this part reads of an activation: its own share if that is enough, else put together.
int Lowering::gather(ValueId value) {
  const Box& need = *sources_.need(value, part_);
  const ops::Share* share = sources_.held(value, part_);
  if (share != nullptr && !share->partial && share->box.contains(need)) return produced_.at(value);
  std::vector<Term> terms;
  std::map<int, int> next_piece;
  for (const Source& source : sources_.of_value(value, part_)) {
    Term term;
    term.box = source.box;
    if (source.part == part_) {
      term.local = produced_.at(value);
    } else {
      const Route* route = find_route(value, false, source.part, part_);
      KERF_CHECK(route != nullptr, "no route brings {} from part {} to {}",
                 model_.value(value).name, source.part, part_);
      term.route = route->id;
      term.piece = next_piece[route->id]++;
    }
    terms.push_back(std::move(term));
  }
  Assembly assembly(model_, value, LocalKind::kActivation, need, std::move(terms));
  return assembly.finish(model_, to_, plan_.routes, stage_.forward);
}

void Lowering::send_values(ValueId value) {
  for (const Route& route : plan_.routes) {
    if (route.value != value || route.gradient || route.from != part_) continue;
    Instruction send;
    send.kind = Kind::kSend;
    send.route = route.id;
    for (const Piece& piece : route.pieces)
      send.moves.push_back(move_of(model_, to_, produced_.at(value), piece.box, false));
    stage_.forward.push_back(std::move(send));
  }
}

const Route* Lowering::find_route(ValueId value, bool gradient, int from, int to) const {
  for (const Route& route : plan_.routes)
    if (route.value == value && route.gradient == gradient && route.from == from && route.to == to)
      return &route;
  return nullptr;
}

}  // namespace kerf::partitioner
