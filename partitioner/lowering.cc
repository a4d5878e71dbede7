#include "partitioner/lowering.h"

#include <algorithm>
#include <functional>

#include "partitioner/at.h"
#include "partitioner/recomputation.h"

namespace kerf::partitioner {

using ops::Box;

namespace {

using Kind = Instruction::Kind;

constexpr size_t kMostAsked = 32;  // sizes: what has fewer rows yet does with what those get

// Rows of a micro-batch, for all of which a call gets scratch memory enough: where none were given,
// both numbers that micro-batches of a step may have.
std::vector<int64_t> sizes_to_ask(const Plan& plan, int64_t largest) {
  std::vector<int64_t> sizes = plan.given_sizes;
  if (sizes.empty()) sizes = {largest, largest - 1};
  std::erase_if(sizes, [](int64_t rows) { return rows < 1; });
  std::ranges::sort(sizes, std::greater<>());
  const auto again = std::ranges::unique(sizes);
  sizes.erase(again.begin(), again.end());
  sizes.resize(std::min(sizes.size(), kMostAsked));
  return sizes;
}

}  // namespace

Part Lowering::run(int part, int stage, bool interleaved) {
  part_ = part;
  to_.part = part;
  to_.stage = stage;
  to_.worker = plan_.binding[static_cast<size_t>(part)];
  to_.gradients = options_.gradients;
  to_.times_only = options_.times_only;
  const StageLists wanted =
      at(stage) < options_.stages.size() ? options_.stages[at(stage)] : StageLists{};
  to_.versions = options_.gradients ? wanted.versions : 0;
  to_.ahead = options_.gradients ? wanted.ahead : 0;
  to_.single_pass = options_.gradients && plan_.micro_batches == 1 && !wanted.recomputes &&
                    !to_.updates_within() && alone_on_its_worker(stage);
  const auto& nodes = plan_.stages[static_cast<size_t>(stage)].nodes;
  for (const int i : sources_.computations_on(part_))
    if (const Computation& computation = sources_.computations()[static_cast<size_t>(i)];
        !computation.iterations.empty() &&
        std::binary_search(nodes.begin(), nodes.end(), computation.node))
      add_call(computation);
  const int64_t largest = sources_.largest();
  const CallSetting setting{
      largest,
      options_.threads,
      device_of(options_.devices, to_.worker),
      options_.gradients,
      to_.updates_within() || (options_.gradients && plan_.micro_batches == 1),
      options_.times_only};
  for (LocalCall& call : to_.calls) measure_call(model_, setting, call);
  if (options_.gradients) {
    add_gradients(interleaved);
    add_parameters();
    if (wanted.recomputes) add_recomputation(model_, to_);
  }
  write_in_place(model_, to_);
  if (!options_.times_only) read_data(model_, to_);
  write_into_slots(model_, to_);
  if (!options_.times_only) place(setting);
  return std::move(to_);
}

void Lowering::place(const CallSetting& setting) {
  const std::vector<bool> accumulate = accumulating_calls();
  const std::vector<int64_t> sizes = sizes_to_ask(plan_, setting.largest);
  for (size_t i = 0; i < to_.calls.size(); ++i)
    measure_workspace(model_, setting, sizes, accumulate[i], to_.calls[i]);
  place_memory(model_, to_, setting.largest, options_);
}

// By call: whether its W adds to what another call, or another micro-batch, has made of a gradient.
std::vector<bool> Lowering::accumulating_calls() const {
  std::vector<int> writers(to_.locals.size());
  const auto& list = to_.weight_gradient.instructions;
  for (const Instruction& each : list)
    for (const Instruction::Target& target : each.targets)
      ++writers[static_cast<size_t>(target.local)];
  std::vector<bool> accumulate(to_.calls.size());
  for (const Instruction& each : list)
    for (const Instruction::Target& target : each.targets)
      if (plan_.micro_batches > 1 || writers[static_cast<size_t>(target.local)] > 1)
        accumulate[static_cast<size_t>(each.call)] = true;
  return accumulate;
}

// Whether the part's worker has no other stage.
bool Lowering::alone_on_its_worker(int stage) const {
  return std::ranges::all_of(plan_.stages, [&](const Stage& other) {
    return &other == &plan_.stages[static_cast<size_t>(stage)] ||
           std::ranges::none_of(other.parts, [&](int part) {
             return plan_.binding[static_cast<size_t>(part)] == to_.worker;
           });
  });
}

void Lowering::add_call(const Computation& computation) {
  const Node& node = model_.node(computation.node);
  LocalCall call;
  call.node = computation.node;
  call.iterations = computation.iterations;
  for (size_t k = 0; k < node.inputs.size(); ++k)
    call.inputs.push_back(node.inputs[k] < 0 ? -1 : operand(node.inputs[k], computation.inputs[k]));
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const ValueId output = node.outputs[k];
    const int local =
        add_local(model_, to_, output, LocalKind::kActivation, computation.outputs[k]);
    call.outputs.push_back(local);
    if (!computation.outputs[k].empty()) produced_[output] = local;
  }
  if (options_.gradients)
    for (const ops::StateUpdate& update : model_.op(call.node).state_updates())
      to_.locals[static_cast<size_t>(call.outputs[static_cast<size_t>(update.output)])].kind =
          LocalKind::kStatistics;
  if (shares_memory(model_, call.node)) {
    Local& output = to_.locals[static_cast<size_t>(call.outputs[0])];
    output.storage = Storage::kAlias;
    output.alias_of = call.inputs[0];
  } else {
    Instruction instruction;
    instruction.kind = Kind::kForward;
    instruction.call = static_cast<int>(to_.calls.size());
    forward().push_back(std::move(instruction));
  }
  report_loss(computation);
  write_results(computation, call);
  computation_of_[static_cast<int>(to_.calls.size())] = &computation;
  call_of_[call.node] = static_cast<int>(to_.calls.size());
  to_.calls.push_back(std::move(call));
  for (const ValueId output : node.outputs)
    if (produced_.contains(output)) send_values(output);
}

// Whether this part is the first of those that compute the same.
bool Lowering::is_first_replica(const Computation& computation) const {
  for (const int i : sources_.computations_of(computation.node))
    if (const Computation& other = sources_.computations()[static_cast<size_t>(i)];
        other.box_number == computation.box_number)
      return other.part == part_;
  return true;
}

// What a model without a loss gives, where a run wants no gradients.
void Lowering::write_results(const Computation& computation, const LocalCall& call) {
  if (options_.gradients || model_.loss() >= 0 || !model_.names_results()) return;
  for (const Result& result : model_.results()) {
    const Value& value = model_.value(result.value);
    const auto output = static_cast<size_t>(value.output);
    if (value.producer != computation.node || computation.outputs[output].empty() ||
        !is_first_replica(computation))
      continue;
    Instruction write;
    write.kind = Kind::kWrite;
    write.local = call.outputs[output];
    forward().push_back(std::move(write));
  }
}

// Replicas have one loss, which the first of them reports.
void Lowering::report_loss(const Computation& computation) {
  if (computation.node != model_.loss() || !is_first_replica(computation)) return;
  Instruction report;
  report.kind = Kind::kLoss;
  report.call = static_cast<int>(to_.calls.size());
  forward().push_back(std::move(report));
}

// The local tensor that holds exactly `box` of a value.
int Lowering::operand(ValueId value, const Box& box) {
  if (box.empty()) return add_local(model_, to_, value, LocalKind::kActivation, box);
  const int base = base_of(value);
  if (box_of(base) == box) return base;
  const auto [found, fresh] = slices_.try_emplace({value, ops::to_string(box)}, -1);
  if (!fresh) return found->second;
  found->second = add_local(model_, to_, value, LocalKind::kActivation, box);
  Instruction slice;
  slice.kind = Kind::kCopy;
  slice.moves = {move_of(selections_, to_, base, box, false),
                 move_of(selections_, to_, found->second, box, false)};
  forward().push_back(std::move(slice));
  return found->second;
}

int Lowering::base_of(ValueId value) {
  const auto [found, fresh] = base_.try_emplace(value, -1);
  if (!fresh) return found->second;
  const Role role = model_.value(value).role;
  if (role == Role::kActivation) return found->second = gather(value);
  const bool kept = ops::is_kept(role);
  const ops::Share* share = plan_.layouts[static_cast<size_t>(value)].find(part_);
  KERF_CHECK(kept || share != nullptr, "{} is not laid out on part {}", model_.value(value).name,
             part_);
  const int local = add_local(model_, to_, value, kept ? LocalKind::kParameter : LocalKind::kData,
                              kept ? *sources_.need(value, part_) : share->box);
  to_.locals[static_cast<size_t>(local)].trained =
      kept && sources_.differentiable(value) && !sources_.has_read_copy(value, part_);
  return found->second = local;
}

// What this part reads of an activation: its own share if that is enough, else put together.
int Lowering::gather(ValueId value) {
  const Box& need = *sources_.need(value, part_);
  const ops::Share* share = sources_.held(value, part_);
  if (share != nullptr && !share->partial() && share->box.contains(need))
    return produced_.at(value);
  const Sum* sum = all_sums_.needed(value, false, part_);
  Assembly assembly(value, LocalKind::kActivation, need, value_terms(value, *sum),
                    sources_.shape(value), selections_);
  return assembly.finish(model_, to_, plan_.routes, forward());
}

std::vector<Term> Lowering::value_terms(ValueId value, const Sum& sum) const {
  std::vector<Term> terms;
  std::map<int, int> next_piece;
  for (const Source& source : sum.terms) {
    Term term;
    term.box = source.box;
    if (source.part == part_) {
      term.local = source.leg == Leg::kAllGather ? slice_.at(value) : produced_.at(value);
    } else {
      const Route* route = routes_.find(value, false, source.leg, source.part, part_);
      KERF_CHECK(route != nullptr, "no route brings {} from part {} to {}",
                 model_.value(value).name, source.part, part_);
      term.route = route->id;
      term.piece = next_piece[route->id]++;
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

void Lowering::send_values(ValueId value) {
  for (const Route* route : routes_.sent(part_, false, value))
    if (route->leg != Leg::kAllGather) forward().push_back(send_of(*route, produced_.at(value)));
  sum_slice(value);
}

// Of partial sums: the slice that this part sums up for all. It does so at once, whether it reads
// it or not, since others wait for it.
void Lowering::sum_slice(ValueId value) {
  for (const Sum& sum : all_sums_.of(value, false)) {
    if (sum.part != part_ || sum.kind != Sum::Kind::kSlice) continue;
    Assembly slice(value, LocalKind::kActivation, sum.box, value_terms(value, sum),
                   sources_.shape(value), selections_);
    slice_[value] = slice.finish(model_, to_, plan_.routes, forward());
    for (const Route* route : routes_.sent(part_, false, value))
      if (route->leg == Leg::kAllGather) forward().push_back(send_of(*route, slice_.at(value)));
  }
}

// All pieces of a message are cut from one local.
Instruction Lowering::send_of(const Route& route, int local) {
  Instruction send;
  send.kind = Kind::kSend;
  send.route = route.id;
  for (const Piece& piece : route.pieces)
    send.moves.push_back(move_of(selections_, to_, local, piece.box, false));
  return send;
}

}  // namespace kerf::partitioner
