// What the runner does for single instructions.
#include <algorithm>
#include <cstring>

#include "partitioner/call_needs.h"
#include "tests/partitioner/part_runner.h"

namespace kerf::partitioner {

using ops::TensorView;

namespace {

std::string of_micro_batch(const std::string& value, int micro_batch) {
  return format("{} of micro-batch {}", value, micro_batch);
}

// Sums or gathers a share into the whole tensor.
void add_share(const Local& local, const std::byte* data, int64_t samples, std::vector<float>& to) {
  to.resize(static_cast<size_t>(local.whole.shape.with_batch(samples).elements()));
  selection_of(local).unpack_add(data, reinterpret_cast<std::byte*>(to.data()), samples);
}

}  // namespace

void PartRunner::read_data(const Local& local, std::byte* to, int micro_batch) const {
  const int64_t count = samples(micro_batch);
  const auto rows = row_data(model_, local.value, options_.first_row + first_sample(micro_batch),
                             count, options_.numbers);
  selection_of(local).pack(rows.data(), to, count);
}

ops::Call PartRunner::make_call(size_t p, const Instruction& instruction, int micro_batch) {
  const LocalCall& local = parts_[p].calls[at(instruction.call)];
  ops::Call made;
  const auto bytes_at = [&](const Place& place, int64_t bytes) -> std::span<std::byte> {
    std::byte* data = memory_at(p, place, micro_batch);
    return {data, data == nullptr ? 0 : static_cast<size_t>(bytes)};
  };
  made.reserve = bytes_at(list(p).reserve[at(instruction.call)], local.reserve);
  made.handed = bytes_at(list(p).handed[at(instruction.call)], local.handed);
  const Pass pass = pass_of(instruction);
  if ((uses_reserve(model_, local, pass) && made.reserve.data() == nullptr) ||
      (uses_handed(local, pass) && made.handed.data() == nullptr))
    fault(format("{} lacks what it saved", model_.node(local.node).name));
  if (instruction.scratch_bytes < local.workspace)
    fault(format("{} lacks scratch memory", model_.node(local.node).name));
  if (instruction.scratch_bytes > 0) {
    std::byte* scratch = memory_at(p, {RegionKind::kTransient, instruction.scratch}, micro_batch);
    made.workspace = {scratch, static_cast<size_t>(instruction.scratch_bytes)};
    for (int64_t byte = 0; byte < instruction.scratch_bytes; byte += kBlock)
      players_[p].owners.erase(scratch + byte);
    std::fill(made.workspace.begin(), made.workspace.end(), std::byte{0x7f});
  }
  made.packed = players_[p].packed[at(instruction.call)];
  made.version = step_;
  made.samples = samples(micro_batch);
  made.key = {7, model_.node(local.node).key, 0, micro_batch};
  made.normaliser = static_cast<double>(first_sample(static_cast<int>(sizes_.size())));
  return made;
}

void PartRunner::call(size_t p, const Instruction& instruction, int micro_batch) {
  const Part& part = parts_[p];
  const LocalCall& local = part.calls[at(instruction.call)];
  const Pass pass = pass_of(instruction);
  const std::vector<int> read = locals_read(model_, local, pass);
  const auto look = [&](int index, Access otherwise) {
    if (index < 0) return TensorView{};
    const bool reads = std::find(read.begin(), read.end(), index) != read.end();
    return view(p, index, micro_batch, reads ? Access::kRead : otherwise);
  };
  ops::Call made = make_call(p, instruction, micro_batch);
  std::vector<TensorView> inputs, outputs, gradients;
  for (const int input : local.inputs) inputs.push_back(look(input, Access::kPeek));
  for (const int output : local.outputs)
    outputs.push_back(look(output, pass == Pass::kForward ? Access::kWrite : Access::kPeek));
  made.inputs = inputs;
  made.outputs = outputs;
  ops::Kernel& kernel = *players_[p].kernels[at(instruction.call)];
  if (pass == Pass::kForward) {
    kernel.forward(made);
    return record_outputs(p, local, micro_batch);
  }
  for (const int each : local.output_gradients) gradients.push_back(look(each, Access::kPeek));
  made.output_gradients = gradients;
  std::vector<ops::GradientTarget> targets;
  for (const auto& target : instruction.targets) {
    const bool sums = part.locals[at(target.local)].kind == LocalKind::kParameterGradient;
    const bool adds = sums && !players_[p].cleared[at(target.local)];
    targets.push_back({target.input,
                       view(p, target.local, micro_batch, adds ? Access::kRead : Access::kWrite),
                       adds});
    if (sums) players_[p].cleared[at(target.local)] = false;
  }
  if (instruction.weights)
    kernel.weight_gradient(made, targets);
  else
    kernel.input_gradient(made, targets);
}

// Whether a part of a lower number computes the same.
bool PartRunner::is_replica(size_t p, const LocalCall& call) const {
  for (size_t other = 0; other < p; ++other)
    for (const LocalCall& each : parts_[other].calls)
      if (each.node == call.node && each.iterations == call.iterations) return true;
  return false;
}

void PartRunner::record_outputs(size_t p, const LocalCall& call, int micro_batch) {
  if (is_replica(p, call)) return;
  for (const int output : call.outputs) {
    const Local& local = parts_[p].locals[at(output)];
    if (local.box.empty() || local.whole.dtype != ops::DType::kFloat32) continue;
    add_share(local, memory_of(p, root_of(parts_[p], output), micro_batch), samples(micro_batch),
              result_.values[of_micro_batch(model_.value(local.value).name, micro_batch)]);
  }
}

bool PartRunner::send(size_t p, const Instruction& instruction, int micro_batch) {
  auto& mail = mail_[instruction.route];
  if (!mail.empty()) return false;  // one message under way
  fill(p, instruction);
  if (instruction.moves.empty()) view(p, instruction.local, micro_batch, Access::kRead);
  auto slot = players_[p].slots.extract(instruction.route);
  if (slot.empty()) {
    fault(format("part {} sends without a slot", p));
    return true;
  }
  Memory& message = slot.mapped();
  std::byte* to = message.data();
  for (const Move& move : instruction.moves) {
    move.selection.pack(view(p, move.local, micro_batch, Access::kRead).data, to,
                        samples(micro_batch));
    to += move.selection.bytes(samples(micro_batch));
  }
  if (!instruction.moves.empty() && to != message.data() + message.size())
    fault("a message of another size than its pieces");
  Traffic& sent = result_.traffic[at(instruction.route)];
  ++sent.messages;
  sent.bytes += static_cast<int64_t>(message.size());
  if (instruction.retained) {
    mail.push_back(message);
    of(p, micro_batch).retained.insert(std::move(slot));
  } else {
    mail.push_back(std::move(message));
  }
  return true;
}

bool PartRunner::receive(size_t p, const Instruction& instruction, int micro_batch) {
  auto& mail = mail_[instruction.route];
  if (mail.empty()) return false;
  auto& views = of(p, micro_batch).views;
  const auto [held, fresh] = views.emplace(instruction.route, std::move(mail.front()));
  mail.pop_front();
  if (!fresh) fault(format("part {} receives route {} twice", p, instruction.route));
  if (instruction.moves.empty()) {
    const Local& local = parts_[p].locals[at(instruction.local)];
    own(p, instruction.local,
        {local.whole.dtype, local.shape(samples(micro_batch)), held->second.data()},
        Access::kWrite);
    return true;
  }
  const std::byte* from = held->second.data();
  for (const Move& move : instruction.moves) {
    std::byte* to = view(p, move.local, micro_batch, Access::kWrite).data;
    if (move.add)
      move.selection.unpack_add(from, to, samples(micro_batch));
    else
      move.selection.unpack(from, to, samples(micro_batch));
    from += move.selection.bytes(samples(micro_batch));
  }
  return true;
}

void PartRunner::copy(size_t p, const Instruction& instruction, int micro_batch) {
  fill(p, instruction);
  const Move& from = instruction.moves[0];
  const Move& to = instruction.moves[1];
  std::vector<std::byte> piece(from.selection.bytes(samples(micro_batch)));
  from.selection.pack(view(p, from.local, micro_batch, Access::kRead).data, piece.data(),
                      samples(micro_batch));
  std::byte* target = view(p, to.local, micro_batch, to.add ? Access::kRead : Access::kWrite).data;
  if (to.add)
    to.selection.unpack_add(piece.data(), target, samples(micro_batch));
  else
    to.selection.unpack(piece.data(), target, samples(micro_batch));
}

void PartRunner::fill(size_t p, const Instruction& instruction) {
  for (const Move& move : instruction.moves) fill(p, move.local);
}

void PartRunner::fill(size_t p, int local) {
  Player& player = players_[p];
  if (parts_[p].locals[at(local)].kind != LocalKind::kParameterGradient ||
      !player.cleared[at(local)])
    return;
  const TensorView zero = view(p, local, -1, Access::kWrite);
  if (zero.bytes() > 0) std::memset(zero.data, 0, zero.bytes());
  player.cleared[at(local)] = false;
}

std::span<double> PartRunner::share(size_t p) {
  const TensorView vector = view(p, parts_[p].step_share, -1, Access::kPeek);
  return {vector.as<double>(), static_cast<size_t>(vector.elements())};
}

std::vector<double> PartRunner::heard(size_t p) {
  const auto* result = view(p, parts_[p].step_result, -1, Access::kPeek).as<double>();
  return {result, result + StepVector::kResults};
}

void PartRunner::measure(size_t p, const Instruction& instruction) {
  fill(p, instruction.local);
  double& entry = share(p)[at(instruction.entry)];
  const auto add = [&](const float* numbers, size_t count) {
    for (size_t i = 0; i < count; ++i) entry += double{numbers[i]} * numbers[i];
  };
  if (parts_[p].locals[at(instruction.local)].kind != LocalKind::kStatistics) {
    const TensorView gradient = view(p, instruction.local, -1, Access::kRead);
    return add(gradient.f32(), static_cast<size_t>(gradient.elements()));
  }
  for (int m = 0; m < static_cast<int>(sizes_.size()); ++m) {
    if (samples(m) == 0) continue;
    const Memory& said = of(p, m).statistics.at(instruction.local);
    add(reinterpret_cast<const float*>(said.data()), said.size() / sizeof(float));
  }
}

void PartRunner::conclude(size_t p, const Instruction& instruction) {
  const std::span<const double> sums = share(p);
  result_.step_sums.assign(sums.begin(), sums.end());
  view(p, instruction.local, -1, Access::kRead);
  auto* result = view(p, instruction.other, -1, Access::kWrite).as<double>();
  partitioner::conclude(model_, step_vector_, sums, result);
  result_.step.assign(result, result + StepVector::kResults);
}

// Descent at a rate that keeps whole numbers exact.
void PartRunner::update(size_t p, const Instruction& instruction) {
  if (heard(p) != result_.step) fault(format("part {} has not heard what the step came to", p));
  fill(p, instruction.other);
  const TensorView home = view(p, instruction.local, -1, Access::kWrite);
  const TensorView gradient = view(p, instruction.other, -1, Access::kRead);
  const Local& summed = parts_[p].locals[at(instruction.other)];
  if (summed.box != parts_[p].locals[at(instruction.local)].box)
    return fault(format("{} is updated by another box", name(p, instruction.local)));
  for (int64_t i = 0; i < home.elements(); ++i) home.f32()[i] -= options_.rate * gradient.f32()[i];
  auto& whole = result_.gradients[model_.value(summed.value).name];
  whole.resize(static_cast<size_t>(summed.whole.shape.elements()));
  selection_of(summed).unpack(gradient.data, reinterpret_cast<std::byte*>(whole.data()), 0);
}

void PartRunner::update_state(size_t p, const Instruction& instruction) {
  const TensorView state = view(p, instruction.local, -1, Access::kWrite);
  for (int m = 0; m < static_cast<int>(sizes_.size()); ++m) {
    if (samples(m) == 0) continue;
    const auto* said =
        reinterpret_cast<const float*>(of(p, m).statistics.at(instruction.other).data());
    for (int64_t i = 0; i < state.elements(); ++i)
      state.f32()[i] = instruction.keep * state.f32()[i] + (1 - instruction.keep) * said[i];
  }
}

}  // namespace kerf::partitioner
