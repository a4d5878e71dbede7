#include "tests/partitioner/part_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "partitioner/call_needs.h"

namespace kerf::partitioner {

using Kind = Instruction::Kind;
using ops::TensorView;

namespace {

constexpr int64_t kBlock = 64;
constexpr uint64_t kSeed = 7;

// Huge numbers, if they were read.
std::vector<std::byte> poison(int64_t bytes) {
  return std::vector<std::byte>(static_cast<size_t>(bytes), std::byte{0x7f});
}

// -2 to 2, and 0 as often as all others together.
float small_number(uint32_t stream, int64_t index) {
  const float number = ops::uniform({kSeed, stream, 0, 0}, index) * 8 - 2;
  return number < 2 ? std::floor(number) + (number < 0 ? 0.0F : 1.0F) : 0.0F;
}

ops::Region region_of(const Local& local) {
  return {ops::Box::whole(local.whole.shape.rank()), local.box, local.whole};
}

std::string of_micro_batch(const std::string& value, int micro_batch) {
  return format("{} of micro-batch {}", value, micro_batch);
}

// Sums or gathers a share into the whole tensor.
void add_share(const Local& local, const std::byte* data, int64_t samples, std::vector<float>& to) {
  to.resize(static_cast<size_t>(local.whole.shape.with_batch(samples).elements()));
  region_of(local).unpack_add(data, reinterpret_cast<std::byte*>(to.data()), samples);
}

}  // namespace

PartRunner::PartRunner(const Model& model, const Plan& plan, const RunOptions& options)
    : model_(model),
      plan_(plan),
      options_(options),
      parts_(lower(model, plan)),
      device_(runtime::make_cpu_device()),
      players_(parts_.size()) {
  for (size_t p = 0; p < parts_.size(); ++p) {
    for (const LocalCall& each : parts_[p].calls)
      players_[p].kernels.push_back(ops::make_kernel(
          {model.op(each.node), each.iterations, plan.division.largest, *device_}));
    players_[p].cleared.assign(parts_[p].locals.size(), true);
    for (size_t i = 0; i < parts_[p].locals.size(); ++i) begin(p, static_cast<int>(i));
  }
}

PartRunner::~PartRunner() = default;

// What is kept from step to step, as it is before the first.
void PartRunner::begin(size_t p, int index) {
  const Local& local = parts_[p].locals[at(index)];
  if (!local.persistent() || local.kind == LocalKind::kStatistics) return;
  Memory& memory = players_[p].persistent[index];
  memory = poison(static_cast<int64_t>(local.bytes(0)));
  if (local.kind != LocalKind::kParameter && local.kind != LocalKind::kHome) return;
  const Value& value = model_.value(local.value);
  if (value.literal != nullptr)
    return region_of(local).pack(reinterpret_cast<const std::byte*>(value.literal->bytes.data()),
                                 memory.data(), 0);
  if (options_.numbers == Numbers::kNormal)
    return ops::initialize({local.whole.dtype, local.shape(0), memory.data()}, local.box,
                           local.whole.shape, value.initializer, kSeed, value.parameter);
  std::vector<float> whole(static_cast<size_t>(local.whole.shape.elements()));
  for (size_t i = 0; i < whole.size(); ++i)
    whole[i] = small_number(ops::kParameterPurpose + value.parameter, static_cast<int64_t>(i));
  region_of(local).pack(reinterpret_cast<const std::byte*>(whole.data()), memory.data(), 0);
}

StepResult PartRunner::run(const std::vector<int64_t>& sizes) {
  sizes_ = sizes;
  result_ = {};
  result_.losses.assign(sizes.size(), 0);
  for (size_t p = 0; p < parts_.size(); ++p) prepare(p);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t p = 0; p < parts_.size(); ++p)
      while (advance(p)) moved = true;
  }
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (players_[p].action < players_[p].row.size())
      fault(format("part {} waits for ever", p));
    else
      check_end(p);
  }
  collect_parameters();
  for (size_t p = 0; p < parts_.size(); ++p) check_copies(p);
  for (const auto& [route, messages] : mail_)
    if (!messages.empty()) fault(format("{} messages of route {} stay", messages.size(), route));
  return std::move(result_);
}

void PartRunner::prepare(size_t p) {
  Player& player = players_[p];
  Part& part = parts_[p];
  player.row.clear();
  player.action = player.instruction = 0;
  player.micro_batches = std::vector<MicroBatch>(sizes_.size() + 1);
  player.transient = poison(part.bytes_of(RegionKind::kTransient));
  const int count = static_cast<int>(sizes_.size());
  for (int m = 0; m < count; ++m)
    for (size_t i = 0; i < part.locals.size(); ++i)
      if (const Local& local = part.locals[i]; local.kind == LocalKind::kStatistics)
        of(p, m).statistics[static_cast<int>(i)] =
            poison(static_cast<int64_t>(local.bytes(samples(m))));
  for (int m = 0; m < count; ++m) player.row.emplace_back(&part.forward, m);
  for (int m = 0; m < count; ++m)
    if (options_.backward == Backward::kApart) {
      player.row.emplace_back(&part.input_gradient, m);
      player.row.emplace_back(&part.weight_gradient, m);
    } else {
      player.row.emplace_back(&part.backward, m);
    }
  for (InstructionList* list : {&part.contribute, &part.update, &part.fetch})
    player.row.emplace_back(list, -1);
}

// One instruction; false if there is none, or it has to wait.
bool PartRunner::advance(size_t p) {
  Player& player = players_[p];
  if (player.action == player.row.size()) return false;
  const auto [list, micro_batch] = player.row[player.action];
  if (player.instruction == list->instructions.size()) {
    ++player.action;
    player.instruction = 0;
    std::fill(player.transient.begin(), player.transient.end(), std::byte{0x7f});
    return true;
  }
  if (!execute(p, list->instructions[player.instruction], micro_batch)) return false;
  ++player.instruction;
  return true;
}

bool PartRunner::execute(size_t p, const Instruction& instruction, int micro_batch) {
  Player& player = players_[p];
  MicroBatch& mine = of(p, micro_batch);
  switch (instruction.kind) {
    case Kind::kTake:
      if (!mine.regions.emplace(instruction.region, poison(parts_[p].bytes_of(instruction.region)))
               .second)
        fault(format("part {} takes a region twice", p));
      break;
    case Kind::kGive:
      if (mine.regions.erase(instruction.region) != 1)
        fault(format("part {} gives a region that it has not", p));
      break;
    case Kind::kRead:
      read_data(parts_[p].locals[at(instruction.local)],
                view(p, instruction.local, micro_batch, Access::kWrite).data, micro_batch);
      break;
    case Kind::kForward:
    case Kind::kGradient:
      call(p, instruction, micro_batch);
      break;
    case Kind::kLoss: {
      const LocalCall& loss = parts_[p].calls[at(instruction.call)];
      result_.losses[at(micro_batch)] +=
          *view(p, loss.outputs[0], micro_batch, Access::kRead).f32();
      for (const int input : loss.inputs) view(p, input, micro_batch, Access::kRead);
      break;
    }
    case Kind::kAcquire: {
      const Route& route = plan_.routes[at(instruction.route)];
      const auto bytes = message_bytes(model_, route, samples(micro_batch));
      if (!player.slots.emplace(instruction.route, poison(static_cast<int64_t>(bytes))).second)
        fault(format("part {} takes a slot of route {} twice", p, instruction.route));
      break;
    }
    case Kind::kSend:
      return send(p, instruction, micro_batch);
    case Kind::kReceive:
      return receive(p, instruction, micro_batch);
    case Kind::kRelease:
      if (mine.views.erase(instruction.route) != 1)
        fault(format("part {} releases route {}, which it does not hold", p, instruction.route));
      break;
    case Kind::kCopy:
      copy(p, instruction, micro_batch);
      break;
    case Kind::kZero: {
      const TensorView zero = view(p, instruction.local, micro_batch, Access::kWrite);
      if (zero.bytes() > 0) std::memset(zero.data, 0, zero.bytes());
      break;
    }
    case Kind::kUpdate:
      update(p, instruction);
      break;
    case Kind::kUpdateState:
      update_state(p, instruction);
      break;
    case Kind::kClear:
      player.cleared[at(instruction.local)] = true;
      break;
  }
  return true;
}

std::byte* PartRunner::memory_at(size_t p, const Place& place, int micro_batch) {
  if (!place.exists()) return nullptr;
  if (place.region == RegionKind::kTransient) return players_[p].transient.data() + place.offset;
  auto& regions = of(p, micro_batch).regions;
  const auto found = regions.find(place.region);
  return found == regions.end() ? nullptr : found->second.data() + place.offset;
}

std::byte* PartRunner::memory_of(size_t p, int root, int micro_batch) {
  Player& player = players_[p];
  const Local& local = parts_[p].locals[at(root)];
  if (local.box.empty()) return nullptr;
  if (local.kind == LocalKind::kStatistics) return of(p, micro_batch).statistics.at(root).data();
  if (local.persistent()) return player.persistent.at(root).data();
  if (local.storage == Storage::kOwn) return memory_at(p, list(p).places[at(root)], micro_batch);
  auto& messages = local.storage == Storage::kSent ? player.slots : of(p, micro_batch).views;
  const auto found = messages.find(local.route);
  return found == messages.end() ? nullptr : found->second.data();
}

// What is read must be what was written last to that place.
void PartRunner::own(size_t p, int root, const TensorView& view, Access access) {
  const auto bytes = static_cast<int64_t>(view.bytes());
  if (bytes == 0 || access == Access::kPeek) return;
  if (view.data == nullptr) return fault(format("{} has no memory", name(p, root)));
  auto& owners = players_[p].owners;
  for (int64_t byte = 0; byte < bytes; byte += kBlock) {
    if (access == Access::kWrite) {
      owners[view.data + byte] = root;
      continue;
    }
    const auto found = owners.find(view.data + byte);
    if (found == owners.end() || found->second != root)
      return fault(format("{} is read where {} was written", name(p, root),
                          found == owners.end() ? "nothing" : name(p, found->second)));
  }
}

TensorView PartRunner::view(size_t p, int index, int micro_batch, Access access) {
  const Local& local = parts_[p].locals[at(index)];
  const int root = root_of(parts_[p], index);
  const Local& holder = parts_[p].locals[at(root)];
  TensorView view{local.whole.dtype, local.shape(samples(micro_batch)),
                  memory_of(p, root, micro_batch)};
  if (holder.persistent()) return view;
  if (access == Access::kWrite && holder.storage == Storage::kReceived)
    fault(format("{} is a view, and is written", name(p, index)));
  own(p, root, view, access);
  if (access == Access::kPeek) view.data = nullptr;
  return view;
}

std::string PartRunner::name(size_t p, int local) const {
  return format("part {}: local {} ({})", p, local,
                model_.value(parts_[p].locals[at(local)].value).name);
}

int64_t PartRunner::first_sample(int micro_batch) const {
  return std::accumulate(sizes_.begin(), sizes_.begin() + micro_batch, int64_t{0});
}

// Rows are numbered through the step; everything else follows from the number.
void PartRunner::read_data(const Local& local, std::byte* to, int micro_batch) const {
  const int64_t count = samples(micro_batch);
  const int64_t row = local.whole.shape.elements_per_sample();
  const auto stream = static_cast<uint32_t>(local.value);
  std::vector<std::byte> whole(local.whole.shape.with_batch(count).elements() *
                               ops::size_of(local.whole.dtype));
  for (int64_t i = 0; i < count * row; ++i) {
    const int64_t global = first_sample(micro_batch) * row + i;
    if (local.whole.dtype == ops::DType::kInt64)
      reinterpret_cast<int64_t*>(whole.data())[i] = global % 3;
    else
      reinterpret_cast<float*>(whole.data())[i] = options_.numbers == Numbers::kWhole
                                                      ? small_number(stream, global)
                                                      : ops::normal({11, stream, 0, 0}, global);
  }
  region_of(local).pack(whole.data(), to, count);
}

ops::Call PartRunner::make_call(size_t p, const Instruction& instruction, int micro_batch) {
  const LocalCall& local = parts_[p].calls[at(instruction.call)];
  ops::Call made;
  made.reserve = memory_at(p, list(p).reserve[at(instruction.call)], micro_batch);
  made.handed = memory_at(p, list(p).handed[at(instruction.call)], micro_batch);
  const Pass pass = pass_of(instruction);
  if ((uses_reserve(model_, local, pass) && made.reserve == nullptr) ||
      (uses_handed(local, pass) && made.handed == nullptr))
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
  made.samples = samples(micro_batch);
  made.key = {kSeed, model_.node(local.node).key, 0, micro_batch};
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
    const bool persistent = part.locals[at(target.local)].persistent();
    targets.push_back({target.input, view(p, target.local, micro_batch, Access::kWrite),
                       persistent && !players_[p].cleared[at(target.local)]});
    if (persistent) players_[p].cleared[at(target.local)] = false;
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
  const auto slot = players_[p].slots.extract(instruction.route);
  if (slot.empty()) {
    fault(format("part {} sends without a slot", p));
    return true;
  }
  Memory& message = slot.mapped();
  std::byte* to = message.data();
  for (const Move& move : instruction.moves) {
    move.region.pack(view(p, move.local, micro_batch, Access::kRead).data, to,
                     samples(micro_batch));
    to += move.region.bytes(samples(micro_batch));
  }
  if (!instruction.moves.empty() && to != message.data() + message.size())
    fault("a message of another size than its pieces");
  ++result_.messages;
  result_.bytes += static_cast<int64_t>(message.size());
  mail.push_back(std::move(message));
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
      move.region.unpack_add(from, to, samples(micro_batch));
    else
      move.region.unpack(from, to, samples(micro_batch));
    from += move.region.bytes(samples(micro_batch));
  }
  return true;
}

void PartRunner::copy(size_t p, const Instruction& instruction, int micro_batch) {
  fill(p, instruction);
  const Move& from = instruction.moves[0];
  const Move& to = instruction.moves[1];
  std::vector<std::byte> piece(from.region.bytes(samples(micro_batch)));
  from.region.pack(view(p, from.local, micro_batch, Access::kRead).data, piece.data(),
                   samples(micro_batch));
  std::byte* target = view(p, to.local, micro_batch, to.add ? Access::kRead : Access::kWrite).data;
  if (to.add)
    to.region.unpack_add(piece.data(), target, samples(micro_batch));
  else
    to.region.unpack(piece.data(), target, samples(micro_batch));
}

void PartRunner::fill(size_t p, const Instruction& instruction) {
  for (const Move& move : instruction.moves) fill(p, move.local);
}

void PartRunner::fill(size_t p, int local) {
  Player& player = players_[p];
  if (parts_[p].locals[at(local)].kind != LocalKind::kParameterGradient ||
      !player.cleared[at(local)])
    return;
  Memory& memory = player.persistent.at(local);
  std::fill(memory.begin(), memory.end(), std::byte{0});
  player.cleared[at(local)] = false;
}

// Descent at a rate that keeps whole numbers exact.
void PartRunner::update(size_t p, const Instruction& instruction) {
  fill(p, instruction.other);
  const TensorView home = view(p, instruction.local, -1, Access::kWrite);
  const TensorView gradient = view(p, instruction.other, -1, Access::kRead);
  const Local& summed = parts_[p].locals[at(instruction.other)];
  if (summed.box != parts_[p].locals[at(instruction.local)].box)
    return fault(format("{} is updated by another box", name(p, instruction.local)));
  for (int64_t i = 0; i < home.elements(); ++i) home.f32()[i] -= 0.5F * gradient.f32()[i];
  auto& whole = result_.gradients[model_.value(summed.value).name];
  whole.resize(static_cast<size_t>(summed.whole.shape.elements()));
  region_of(summed).unpack(gradient.data, reinterpret_cast<std::byte*>(whole.data()), 0);
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

void PartRunner::check_end(size_t p) {
  for (const MicroBatch& micro_batch : players_[p].micro_batches)
    if (!micro_batch.regions.empty() || !micro_batch.views.empty())
      fault(format("part {} keeps {} regions and {} views", p, micro_batch.regions.size(),
                   micro_batch.views.size()));
  if (!players_[p].slots.empty()) fault(format("part {} keeps a slot", p));
}

// Whole tensors, from the homes, and from all that is not trained.
void PartRunner::collect_parameters() {
  for (size_t p = 0; p < parts_.size(); ++p)
    for (const auto& [index, memory] : players_[p].persistent) {
      const Local& local = parts_[p].locals[at(index)];
      const Value& value = model_.value(local.value);
      if (local.kind == LocalKind::kParameterGradient || value.spec.dtype != ops::DType::kFloat32)
        continue;
      if (value.role == Role::kParameter && !local.trained) continue;
      auto& whole = result_.parameters[value.name];
      whole.resize(static_cast<size_t>(value.spec.shape.elements()));
      region_of(local).unpack(memory.data(), reinterpret_cast<std::byte*>(whole.data()), 0);
    }
}

void PartRunner::check_copies(size_t p) {
  for (const auto& [index, memory] : players_[p].persistent) {
    const Local& local = parts_[p].locals[at(index)];
    const auto whole = result_.parameters.find(model_.value(local.value).name);
    if (local.kind == LocalKind::kParameterGradient || whole == result_.parameters.end()) continue;
    Memory expected(memory.size());
    region_of(local).pack(reinterpret_cast<const std::byte*>(whole->second.data()), expected.data(),
                          0);
    if (expected != memory) fault(format("{} is not what its home is", name(p, index)));
  }
}

}  // namespace kerf::partitioner
