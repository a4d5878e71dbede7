#include "tests/partitioner/part_runner.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "partitioner/call_needs.h"

namespace kerf::partitioner {

using Kind = Instruction::Kind;
using ops::TensorView;

namespace {

constexpr int64_t kBlock = 64;

size_t at(int index) { return static_cast<size_t>(index); }

// Huge numbers, if they were read.
std::vector<std::byte> poison(int64_t bytes) {
  return std::vector<std::byte>(static_cast<size_t>(bytes), std::byte{0x7f});
}

}  // namespace

PartRunner::PartRunner(const Model& model, const Plan& plan, Backward backward)
    : model_(model),
      plan_(plan),
      backward_(backward),
      parts_(lower(model, plan)),
      device_(runtime::make_cpu_device()),
      players_(parts_.size()) {
  for (size_t p = 0; p < parts_.size(); ++p) {
    for (const LocalCall& each : parts_[p].calls)
      players_[p].kernels.push_back(
          model.op(each.node).make_kernel(model.node(each.node).attributes, *device_));
    players_[p].cleared.assign(parts_[p].locals.size(), true);
    for (size_t i = 0; i < parts_[p].locals.size(); ++i) {
      const Local& local = parts_[p].locals[i];
      if (!local.persistent()) continue;
      Memory& memory = players_[p].persistent[static_cast<int>(i)];
      memory = poison(static_cast<int64_t>(local.spec.bytes(0)));
      if (local.kind != LocalKind::kParameter) continue;
      const Value& value = model.value(local.value);
      ops::initialize({local.spec.dtype, local.spec.shape, memory.data()}, local.box,
                      value.spec.shape, value.initializer, 7, value.parameter);
    }
  }
}

PartRunner::~PartRunner() = default;

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
  for (size_t p = 0; p < parts_.size(); ++p) collect(p, result_);
  for (const auto& [route, messages] : mail_)
    if (!messages.empty()) fault(format("{} messages of route {} stay", messages.size(), route));
  return std::move(result_);
}

void PartRunner::prepare(size_t p) {
  Player& player = players_[p];
  player.row.clear();
  player.action = player.instruction = 0;
  player.micro_batches = std::vector<MicroBatch>(sizes_.size());
  player.transient = poison(parts_[p].bytes_of(RegionKind::kTransient));
  const int count = static_cast<int>(sizes_.size());
  Part& part = parts_[p];
  for (int m = 0; m < count; ++m) player.row.emplace_back(&part.forward, m);
  for (int m = 0; m < count; ++m)
    if (backward_ == Backward::kApart) {
      player.row.emplace_back(&part.input_gradient, m);
      player.row.emplace_back(&part.weight_gradient, m);
    } else {
      player.row.emplace_back(&part.backward, m);
    }
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
  MicroBatch& mine = player.micro_batches[at(micro_batch)];
  switch (instruction.kind) {
    case Kind::kTake:
      if (!mine.regions.emplace(instruction.region, poison(parts_[p].bytes_of(instruction.region)))
               .second)
        fault(format("part {} takes a region twice", p));
      return true;
    case Kind::kGive:
      if (mine.regions.erase(instruction.region) != 1)
        fault(format("part {} gives a region that it has not", p));
      return true;
    case Kind::kRead:
      read_data(parts_[p].locals[at(instruction.local)],
                view(p, instruction.local, micro_batch, Access::kWrite).data, micro_batch);
      return true;
    case Kind::kForward:
    case Kind::kGradient:
      call(p, instruction, micro_batch);
      return true;
    case Kind::kLoss: {
      const LocalCall& loss = parts_[p].calls[at(instruction.call)];
      result_.losses[at(micro_batch)] = *view(p, loss.outputs[0], micro_batch, Access::kRead).f32();
      for (const int input : loss.inputs) view(p, input, micro_batch, Access::kRead);
      return true;
    }
    case Kind::kAcquire: {
      const Route& route = plan_.routes[at(instruction.route)];
      const auto bytes = message_bytes(model_, route, sizes_[at(micro_batch)]);
      if (!player.slots.emplace(instruction.route, poison(static_cast<int64_t>(bytes))).second)
        fault(format("part {} takes a slot of route {} twice", p, instruction.route));
      return true;
    }
    case Kind::kSend:
      return send(p, instruction, micro_batch);
    case Kind::kReceive:
      return receive(p, instruction, micro_batch);
    case Kind::kRelease:
      if (mine.views.erase(instruction.route) != 1)
        fault(format("part {} releases route {}, which it does not hold", p, instruction.route));
      return true;
    case Kind::kCopy:
      copy(p, instruction, micro_batch);
      return true;
    case Kind::kZero: {
      const TensorView zero = view(p, instruction.local, micro_batch, Access::kWrite);
      if (zero.bytes() > 0) std::memset(zero.data, 0, zero.bytes());
      return true;
    }
    case Kind::kUpdate:
    case Kind::kClear:
      fault("an instruction of the step in a list of a micro-batch");
      return true;
  }
  return true;
}

std::byte* PartRunner::memory_at(size_t p, const Place& place, int micro_batch) {
  if (!place.exists()) return nullptr;
  if (place.region == RegionKind::kTransient) return players_[p].transient.data() + place.offset;
  auto& regions = players_[p].micro_batches[at(micro_batch)].regions;
  const auto found = regions.find(place.region);
  return found == regions.end() ? nullptr : found->second.data() + place.offset;
}

std::byte* PartRunner::memory_of(size_t p, int root, int micro_batch) {
  Player& player = players_[p];
  const Local& local = parts_[p].locals[at(root)];
  if (local.persistent()) return player.persistent.at(root).data();
  if (local.storage == Storage::kOwn) return memory_at(p, list(p).places[at(root)], micro_batch);
  auto& messages =
      local.storage == Storage::kSent ? player.slots : player.micro_batches[at(micro_batch)].views;
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
  TensorView view{local.spec.dtype, local.spec.shape.with_batch(sizes_[at(micro_batch)]),
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

// Rows are numbered through the step; everything else follows from the number.
void PartRunner::read_data(const Local& local, std::byte* to, int micro_batch) const {
  const ops::ValueSpec& spec = model_.value(local.value).spec;
  const int64_t samples = sizes_[at(micro_batch)];
  const int64_t first = std::accumulate(sizes_.begin(), sizes_.begin() + micro_batch, int64_t{0});
  const int64_t row = spec.shape.elements_per_sample();
  std::vector<std::byte> whole(spec.bytes(samples));
  for (int64_t i = 0; i < samples * row; ++i) {
    const int64_t global = first * row + i;
    if (spec.dtype == ops::DType::kInt64)
      reinterpret_cast<int64_t*>(whole.data())[i] = global % 3;
    else
      reinterpret_cast<float*>(whole.data())[i] =
          ops::normal({11, static_cast<uint32_t>(local.value), 0, 0}, global);
  }
  const auto box = ops::Box::whole(spec.shape.rank());
  ops::Region(box, local.box, spec).pack(whole.data(), to, samples);
}

void PartRunner::call(size_t p, const Instruction& instruction, int micro_batch) {
  const Part& part = parts_[p];
  const LocalCall& local = part.calls[at(instruction.call)];
  const Node& node = model_.node(local.node);
  const Pass pass = pass_of(part, instruction);
  const std::vector<int> read = locals_read(model_, local, pass);
  const auto access = [&](int index) {
    return std::find(read.begin(), read.end(), index) != read.end() ? Access::kRead : Access::kPeek;
  };
  std::vector<TensorView> inputs, outputs, gradients;
  for (const int input : local.inputs) inputs.push_back(view(p, input, micro_batch, access(input)));
  for (const int output : local.outputs)
    outputs.push_back(
        view(p, output, micro_batch, pass == Pass::kForward ? Access::kWrite : access(output)));
  ops::Call made;
  made.saved = memory_at(p, list(p).saved[at(instruction.call)], micro_batch);
  if (local.saved > 0 && made.saved == nullptr) fault(format("{} lacks what it saved", node.name));
  const auto m = at(micro_batch);
  made.output_box = &local.box;
  made.output_shape = model_.value(node.outputs[0]).spec.shape.with_batch(sizes_[m]);
  made.key = {7, static_cast<uint32_t>(local.node), 0, micro_batch};
  made.first_sample = std::accumulate(sizes_.begin(), sizes_.begin() + micro_batch, int64_t{0});
  made.normaliser = static_cast<double>(std::accumulate(sizes_.begin(), sizes_.end(), int64_t{0}));
  made.inputs = inputs;
  made.outputs = outputs;
  ops::Kernel& kernel = *players_[p].kernels[at(instruction.call)];
  if (pass == Pass::kForward) return kernel.forward(made);
  for (const int each : local.output_gradients)
    gradients.push_back(each < 0 ? TensorView{} : view(p, each, micro_batch, Access::kRead));
  made.output_gradients = gradients;
  std::vector<ops::GradientTarget> targets;
  for (const auto& target : instruction.targets) {
    const bool persistent = part.locals[at(target.local)].persistent();
    targets.push_back({target.input, view(p, target.local, micro_batch, Access::kWrite),
                       persistent && !players_[p].cleared[at(target.local)]});
    if (persistent) players_[p].cleared[at(target.local)] = false;
  }
  kernel.gradient(made, targets);
}

bool PartRunner::send(size_t p, const Instruction& instruction, int micro_batch) {
  auto& mail = mail_[instruction.route];
  if (!mail.empty()) return false;  // one message under way
  const int64_t samples = sizes_[at(micro_batch)];
  if (instruction.moves.empty()) view(p, instruction.local, micro_batch, Access::kRead);
  const auto slot = players_[p].slots.extract(instruction.route);
  if (slot.empty()) {
    fault(format("part {} sends without a slot", p));
    return true;
  }
  Memory& message = slot.mapped();
  std::byte* to = message.data();
  for (const Move& move : instruction.moves) {
    move.region.pack(view(p, move.local, micro_batch, Access::kRead).data, to, samples);
    to += move.region.bytes(samples);
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
  const int64_t samples = sizes_[at(micro_batch)];
  auto& views = players_[p].micro_batches[at(micro_batch)].views;
  const auto [held, fresh] = views.emplace(instruction.route, std::move(mail.front()));
  mail.pop_front();
  if (!fresh) fault(format("part {} receives route {} twice", p, instruction.route));
  if (instruction.moves.empty()) {
    const Local& local = parts_[p].locals[at(instruction.local)];
    own(p, instruction.local,
        {local.spec.dtype, local.spec.shape.with_batch(samples), held->second.data()},
        Access::kWrite);
    return true;
  }
  const std::byte* from = held->second.data();
  for (const Move& move : instruction.moves) {
    std::byte* to = view(p, move.local, micro_batch, Access::kWrite).data;
    if (move.add)
      move.region.unpack_add(from, to, samples);
    else
      move.region.unpack(from, to, samples);
    from += move.region.bytes(samples);
  }
  return true;
}

void PartRunner::copy(size_t p, const Instruction& instruction, int micro_batch) {
  const Move& from = instruction.moves[0];
  const Move& to = instruction.moves[1];
  const int64_t samples = sizes_[at(micro_batch)];
  std::vector<std::byte> piece(from.region.bytes(samples));
  from.region.pack(view(p, from.local, micro_batch, Access::kRead).data, piece.data(), samples);
  std::byte* target = view(p, to.local, micro_batch, to.add ? Access::kRead : Access::kWrite).data;
  if (to.add)
    to.region.unpack_add(piece.data(), target, samples);
  else
    to.region.unpack(piece.data(), target, samples);
}

void PartRunner::check_end(size_t p) {
  for (const MicroBatch& micro_batch : players_[p].micro_batches)
    if (!micro_batch.regions.empty() || !micro_batch.views.empty())
      fault(format("part {} keeps {} regions and {} views", p, micro_batch.regions.size(),
                   micro_batch.views.size()));
  if (!players_[p].slots.empty()) fault(format("part {} keeps a slot", p));
}

// U, as far as it sums gradients.
void PartRunner::collect(size_t p, StepResult& result) {
  Player& player = players_[p];
  for (const Instruction& instruction : parts_[p].update.instructions) {
    if (instruction.kind == Kind::kCopy)
      for (size_t i = 0; i < player.persistent.at(instruction.moves[0].local).size() / 4; ++i)
        reinterpret_cast<float*>(player.persistent.at(instruction.moves[1].local).data())[i] +=
            reinterpret_cast<float*>(player.persistent.at(instruction.moves[0].local).data())[i];
    if (instruction.kind == Kind::kClear) player.cleared[at(instruction.local)] = true;
    if (instruction.kind != Kind::kUpdate) continue;
    const Local& local = parts_[p].locals[at(instruction.other)];
    const Value& value = model_.value(local.value);
    auto& whole = result.gradients[value.name];
    whole.resize(static_cast<size_t>(value.spec.shape.elements()));
    ops::Region(ops::Box::whole(value.spec.shape.rank()), local.box, value.spec)
        .unpack(player.persistent.at(instruction.other).data(),
                reinterpret_cast<std::byte*>(whole.data()), 0);
  }
}

}  // namespace kerf::partitioner
