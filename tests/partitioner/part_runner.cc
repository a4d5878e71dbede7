#include "tests/partitioner/part_runner.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/arithmetic.h"

namespace kerf::partitioner {

using Kind = Instruction::Kind;
using ops::TensorView;

namespace {

// Huge numbers, if they were read.
std::vector<std::byte> poison(int64_t bytes) {
  return std::vector<std::byte>(static_cast<size_t>(bytes), std::byte{0x7f});
}

}  // namespace

PartRunner::PartRunner(const Model& model, const Plan& plan, const RunOptions& options)
    : model_(model),
      plan_(plan),
      options_(options),
      parts_(lower(model, plan)),
      device_(runtime::make_cpu_device()),
      stream_(device_->make_stream()),
      bench_(ops::make_workbench(*device_, *stream_)),
      players_(parts_.size()),
      step_vector_(model, plan.micro_batches) {
  ops::use_threads(1);  // for which lower() measures kernels
  for (size_t p = 0; p < parts_.size(); ++p) {
    for (const LocalCall& each : parts_[p].calls) {
      players_[p].kernels.push_back(
          ops::make_kernel({model.op(each.node), each.iterations, plan.division.largest, *bench_}));
      players_[p].packed.push_back(poison(each.packed));
    }
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
  if (!holds_weights(local)) return;
  std::vector<std::byte> data = kept_data(model_.value(local.value), options_.numbers);
  selection_of(local).pack(data.data(), memory.data(), 0);
}

StepResult PartRunner::run(const std::vector<int64_t>& sizes) {
  sizes_ = sizes;
  ++step_;
  result_ = {};
  result_.losses.assign(sizes.size(), 0);
  result_.traffic.assign(plan_.routes.size(), {});
  for (size_t p = 0; p < parts_.size(); ++p) prepare(p);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t p = 0; p < parts_.size(); ++p)
      while (advance(p)) moved = true;
  }
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (players_[p].action < players_[p].row.size())
      fault(waiting(p));
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
  for (auto& [local, memory] : player.persistent)
    if (part.locals[at(local)].kind == LocalKind::kStep)
      std::fill(memory.begin(), memory.end(), std::byte{0});
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
  for (InstructionList* list :
       {&part.contribute, &part.reduce, &part.conclude, &part.update, &part.fetch})
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
    if (!parts_[p].single_pass)
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
    case Kind::kWrite:
      view(p, instruction.local, micro_batch, Access::kRead);
      break;
    case Kind::kForward:
    case Kind::kGradient:
      call(p, instruction, micro_batch);
      break;
    case Kind::kLoss: {
      const LocalCall& loss = parts_[p].calls[at(instruction.call)];
      const float reported = *view(p, loss.outputs[0], micro_batch, Access::kRead).f32();
      result_.losses[at(micro_batch)] += reported;
      share(p)[at(step_vector_.loss_of(micro_batch))] += reported;
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
    case Kind::kRetire:
      if (mine.retained.erase(instruction.route) != 1)
        fault(format("part {} retires a slot of route {}, which it does not retain", p,
                     instruction.route));
      break;
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
    case Kind::kMeasure:
      measure(p, instruction);
      break;
    case Kind::kConclude:
      conclude(p, instruction);
      break;
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
  const auto message = [&](std::map<int, Memory>& messages) {
    const auto found = messages.find(local.route);
    return found == messages.end() ? nullptr : found->second.data();
  };
  MicroBatch& mine = of(p, micro_batch);
  if (local.storage == Storage::kReceived) return message(mine.views);
  return message(mine.retained.contains(local.route) ? mine.retained : player.slots);
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
  if (access == Access::kWrite && of(p, micro_batch).retained.contains(holder.route))
    fault(format("{} was sent, and is written", name(p, index)));
  own(p, root, view, access);
  if (access == Access::kPeek) view.data = nullptr;
  return view;
}

std::string PartRunner::name(size_t p, int local) const {
  Route of;
  of.value = parts_[p].locals[at(local)].value;
  return format("part {}: local {} ({})", p, local, value_name(model_, of));
}

int64_t PartRunner::first_sample(int micro_batch) const {
  return std::accumulate(sizes_.begin(), sizes_.begin() + micro_batch, int64_t{0});
}

std::string PartRunner::waiting(size_t p) const {
  const Player& player = players_[p];
  const Instruction& held = list(p).instructions[player.instruction];
  const Route& route = plan_.routes[at(held.route)];
  return format("part {} waits for ever: action {} (micro-batch {}), to {} {}{} from {} to {}", p,
                player.action, player.row[player.action].second,
                held.kind == Kind::kSend ? "send" : "receive",
                route.gradient ? "the gradient of " : "", value_name(model_, route), route.from,
                route.to);
}

void PartRunner::check_end(size_t p) {
  for (const MicroBatch& micro_batch : players_[p].micro_batches)
    if (!micro_batch.regions.empty() || !micro_batch.views.empty() || !micro_batch.retained.empty())
      fault(format("part {} keeps {} regions, {} views and {} slots that it sent", p,
                   micro_batch.regions.size(), micro_batch.views.size(),
                   micro_batch.retained.size()));
  if (!players_[p].slots.empty()) fault(format("part {} keeps a slot", p));
}

// Whole tensors, from the homes, and from all that is not trained.
void PartRunner::collect_parameters() {
  for (size_t p = 0; p < parts_.size(); ++p)
    for (const auto& [index, memory] : players_[p].persistent) {
      const Local& local = parts_[p].locals[at(index)];
      if (!holds_weights(local)) continue;
      const Value& value = model_.value(local.value);
      if (value.spec.dtype != ops::DType::kFloat32) continue;
      if (value.role == Role::kParameter && !local.trained) continue;
      auto& whole = result_.parameters[value.name];
      whole.resize(static_cast<size_t>(value.spec.shape.elements()));
      selection_of(local).unpack(memory.data(), reinterpret_cast<std::byte*>(whole.data()), 0);
    }
}

void PartRunner::check_copies(size_t p) {
  for (const auto& [index, memory] : players_[p].persistent) {
    const Local& local = parts_[p].locals[at(index)];
    if (!holds_weights(local)) continue;
    const auto whole = result_.parameters.find(model_.value(local.value).name);
    if (whole == result_.parameters.end()) continue;
    Memory expected(memory.size());
    selection_of(local).pack(reinterpret_cast<const std::byte*>(whole->second.data()),
                             expected.data(), 0);
    if (expected != memory) fault(format("{} is not what its home is", name(p, index)));
  }
}

}  // namespace kerf::partitioner
