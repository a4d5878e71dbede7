#include "tests/partitioner/part_runner.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace kerf::partitioner {

using Kind = Instruction::Kind;
using ops::TensorView;

namespace {

size_t at(int index) { return static_cast<size_t>(index); }

}  // namespace

PartRunner::PartRunner(const Model& model, const Plan& plan)
    : model_(model),
      plan_(plan),
      parts_(lower(model, plan)),
      device_(runtime::make_cpu_device()),
      workers_(parts_.size()) {
  for (size_t w = 0; w < parts_.size(); ++w) {
    for (const LocalCall& each : parts_[w].calls)
      workers_[w].kernels.push_back(
          model.op(each.node).make_kernel(model.node(each.node).attributes, *device_));
    for (size_t i = 0; i < parts_[w].locals.size(); ++i) {
      const Local& local = parts_[w].locals[i];
      if (!local.persistent()) continue;
      auto& buffer = workers_[w].persistent[static_cast<int>(i)];
      buffer = device_->allocate(local.spec.bytes(0));
      if (local.kind != LocalKind::kParameter) continue;
      const Value& value = model.value(local.value);
      ops::initialize({local.spec.dtype, local.spec.shape, buffer.data()}, local.box,
                      value.spec.shape, value.initializer, 7, value.parameter);
    }
  }
}

PartRunner::~PartRunner() = default;

StepResult PartRunner::run(const std::vector<int64_t>& sizes) {
  sizes_ = sizes;
  result_ = {};
  result_.losses.assign(sizes.size(), 0);
  for (size_t w = 0; w < parts_.size(); ++w) prepare(w);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t w = 0; w < parts_.size(); ++w)
      while (advance(w)) moved = true;
  }
  for (size_t w = 0; w < parts_.size(); ++w) {
    if (workers_[w].action < workers_[w].row.size())
      fault(format("worker {} waits for ever", w));
    else
      check_end(w);
    collect(w, result_);
  }
  for (const auto& [route, messages] : mail_)
    if (!messages.empty()) fault(format("{} messages of route {} stay", messages.size(), route));
  return std::move(result_);
}

void PartRunner::prepare(size_t w) {
  Worker& worker = workers_[w];
  worker.row.clear();
  worker.action = worker.instruction = 0;
  worker.cells.clear();
  for (size_t m = 0; m < sizes_.size(); ++m) worker.cells.emplace_back(parts_[w].locals.size());
  worker.saved = std::vector<std::map<int, runtime::Buffer>>(sizes_.size());
  const int count = static_cast<int>(sizes_.size());
  const auto& stages = parts_[w].stages;
  for (const StagePart& stage : stages)
    for (int m = 0; m < count; ++m) worker.row.emplace_back(&stage.forward, m);
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
    for (int m = 0; m < count; ++m) {
      worker.row.emplace_back(&stage->input_gradient, m);
      worker.row.emplace_back(&stage->weight_gradient, m);
    }
}

// One instruction; false if there is none, or it has to wait.
bool PartRunner::advance(size_t w) {
  Worker& worker = workers_[w];
  if (worker.action == worker.row.size()) return false;
  const auto [list, micro_batch] = worker.row[worker.action];
  if (worker.instruction == list->size()) {
    for (const StagePart& stage : parts_[w].stages)
      if (list == &stage.forward) note_losses(w, micro_batch);
    ++worker.action;
    worker.instruction = 0;
    return true;
  }
  if (!execute(w, (*list)[worker.instruction], micro_batch)) return false;
  ++worker.instruction;
  return true;
}

bool PartRunner::execute(size_t w, const Instruction& instruction, int micro_batch) {
  switch (instruction.kind) {
    case Kind::kForward:
    case Kind::kGradient:
      call(w, instruction, micro_batch);
      return true;
    case Kind::kSend:
      return send(w, instruction, micro_batch);
    case Kind::kReceive:
      return receive(w, instruction, micro_batch);
    case Kind::kCopy:
      copy(w, instruction, micro_batch);
      return true;
    case Kind::kZero: {
      const TensorView zero = view(w, instruction.local, micro_batch, Access::kWrite);
      if (zero.bytes() > 0) std::memset(zero.data, 0, zero.bytes());
      return true;
    }
    case Kind::kFree:
      free(w, instruction.local, micro_batch);
      return true;
    case Kind::kFreeSaved:
      if (workers_[w].saved[at(micro_batch)].erase(instruction.call) != 1)
        fault(format("worker {} frees what call {} never saved", w, instruction.call));
      return true;
    case Kind::kUpdate:
      return true;
  }
  return true;
}

TensorView PartRunner::view(size_t w, int index, int micro_batch, Access access) {
  const Local& local = parts_[w].locals[at(index)];
  if (local.persistent())
    return {local.spec.dtype, local.spec.shape, workers_[w].persistent.at(index).data()};
  Cell& cell = workers_[w].cells[at(micro_batch)][at(index)];
  TensorView view{local.spec.dtype, local.spec.shape.with_batch(sizes_[at(micro_batch)]), nullptr};
  if (cell.frees > 0) {
    if (access != Access::kPeek) fault(format("{} is used after it was freed", name(w, index)));
    return view;
  }
  if (local.storage == Storage::kAlias) {
    cell.written = true;
    view.data = this->view(w, local.alias_of, micro_batch, access).data;
    return view;
  }
  if (!cell.written && local.kind == LocalKind::kData && access != Access::kPeek) {
    cell.buffer = device_->allocate(std::max<size_t>(view.bytes(), 64));
    read_data(local, cell.buffer.data(), micro_batch);
    cell.written = true;
  }
  if (!cell.written && access == Access::kRead)
    fault(format("{} is read before it was written", name(w, index)));
  if (!cell.written && access == Access::kWrite) {
    if (local.storage == Storage::kReceived)
      fault(format("{} is a view, and is written", name(w, index)));
    cell.buffer = device_->allocate(std::max<size_t>(view.bytes(), 64));
    std::memset(cell.buffer.data(), 0x7f, cell.buffer.bytes());  // huge, if it were read
    cell.written = true;
  }
  view.data = cell.buffer.data();
  return view;
}

std::string PartRunner::name(size_t w, int local) const {
  return format("worker {}: local {} ({})", w, local,
                model_.value(parts_[w].locals[at(local)].value).name);
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

void PartRunner::call(size_t w, const Instruction& instruction, int micro_batch) {
  const LocalCall& local = parts_[w].calls[at(instruction.call)];
  const Node& node = model_.node(local.node);
  const ops::Operator& op = model_.op(local.node);
  const bool forward = instruction.kind == Kind::kForward;
  const bool weights = !forward && !instruction.targets.empty() &&
                       parts_[w].locals[at(instruction.targets[0].local)].persistent();
  const ops::Keeps keeps = op.keeps();
  const auto& kept = weights ? keeps.inputs_for_weight_gradient : keeps.inputs_for_input_gradient;
  const auto has = [](const std::vector<int>& list, size_t k) {
    return std::find(list.begin(), list.end(), static_cast<int>(k)) != list.end();
  };
  std::vector<TensorView> inputs, outputs, gradients;
  for (size_t k = 0; k < local.inputs.size(); ++k)
    inputs.push_back(view(w, local.inputs[k], micro_batch,
                          forward || has(kept, k) ? Access::kRead : Access::kPeek));
  for (size_t k = 0; k < local.outputs.size(); ++k)
    outputs.push_back(view(w, local.outputs[k], micro_batch,
                           forward                                                ? Access::kWrite
                           : !weights && has(keeps.outputs_for_input_gradient, k) ? Access::kRead
                                                                                  : Access::kPeek));
  std::vector<ops::ValueSpec> specs;
  for (const TensorView& input : inputs) specs.push_back({input.dtype, input.shape});
  auto& saved = workers_[w].saved[at(micro_batch)];
  if (forward && local.saved > 0)
    saved[instruction.call] =
        device_->allocate(std::max<size_t>(op.saved_bytes(node.attributes, specs), 64));
  ops::Call made;
  if (local.saved > 0) {
    if (!saved.contains(instruction.call)) fault(format("{} lacks what it saved", node.name));
    made.saved = saved[instruction.call].data();
  }
  made.output_box = &local.box;
  made.output_shape = model_.value(node.outputs[0]).spec.shape.with_batch(sizes_[at(micro_batch)]);
  made.key = {7, static_cast<uint32_t>(local.node), 0, micro_batch};
  made.first_sample = std::accumulate(sizes_.begin(), sizes_.begin() + micro_batch, int64_t{0});
  made.normaliser = static_cast<double>(std::accumulate(sizes_.begin(), sizes_.end(), int64_t{0}));
  made.inputs = inputs;
  made.outputs = outputs;
  ops::Kernel& kernel = *workers_[w].kernels[at(instruction.call)];
  if (forward) return kernel.forward(made);
  for (const int each : local.output_gradients)
    gradients.push_back(each < 0 ? TensorView{} : view(w, each, micro_batch, Access::kRead));
  made.output_gradients = gradients;
  std::vector<ops::GradientTarget> targets;
  for (const auto& target : instruction.targets)
    targets.push_back({target.input, view(w, target.local, micro_batch, Access::kWrite),
                       weights && micro_batch > 0});
  kernel.gradient(made, targets);
}

bool PartRunner::send(size_t w, const Instruction& instruction, int micro_batch) {
  auto& mail = mail_[instruction.route];
  if (!mail.empty()) return false;  // one slot
  const Route& route = plan_.routes[at(instruction.route)];
  const int64_t samples = sizes_[at(micro_batch)];
  std::vector<std::byte> message(message_bytes(model_, route, samples));
  std::byte* to = message.data();
  for (const Move& move : instruction.moves) {
    move.region.pack(view(w, move.local, micro_batch, Access::kRead).data, to, samples);
    to += move.region.bytes(samples);
  }
  if (instruction.moves.empty()) {
    const TensorView slot = view(w, instruction.local, micro_batch, Access::kRead);
    if (slot.bytes() != message.size()) fault("a slot of another size than its message");
    if (slot.bytes() > 0) std::memcpy(to, slot.data, slot.bytes());
  } else if (to != message.data() + message.size()) {
    fault("a message of another size than its pieces");
  }
  ++result_.messages;
  result_.bytes += static_cast<int64_t>(message.size());
  mail.push_back(std::move(message));
  return true;
}

bool PartRunner::receive(size_t w, const Instruction& instruction, int micro_batch) {
  auto& mail = mail_[instruction.route];
  if (mail.empty()) return false;
  const std::vector<std::byte> message = std::move(mail.front());
  mail.pop_front();
  const std::byte* from = message.data();
  const int64_t samples = sizes_[at(micro_batch)];
  for (const Move& move : instruction.moves) {
    std::byte* to = view(w, move.local, micro_batch, Access::kWrite).data;
    if (move.add)
      move.region.unpack_add(from, to, samples);
    else
      move.region.unpack(from, to, samples);
    from += move.region.bytes(samples);
  }
  if (!instruction.moves.empty()) return true;
  Cell& cell = workers_[w].cells[at(micro_batch)][at(instruction.local)];
  if (cell.written) fault(format("{} is received twice", name(w, instruction.local)));
  cell.buffer = device_->allocate(std::max<size_t>(message.size(), 64));
  if (!message.empty()) std::memcpy(cell.buffer.data(), message.data(), message.size());
  cell.written = true;
  return true;
}

void PartRunner::copy(size_t w, const Instruction& instruction, int micro_batch) {
  const Move& from = instruction.moves[0];
  const Move& to = instruction.moves[1];
  const int64_t samples = sizes_[at(micro_batch)];
  std::vector<std::byte> piece(from.region.bytes(samples));
  from.region.pack(view(w, from.local, micro_batch, Access::kRead).data, piece.data(), samples);
  std::byte* target = view(w, to.local, micro_batch, to.add ? Access::kRead : Access::kWrite).data;
  if (to.add)
    to.region.unpack_add(piece.data(), target, samples);
  else
    to.region.unpack(piece.data(), target, samples);
}

void PartRunner::free(size_t w, int index, int micro_batch) {
  const auto& locals = parts_[w].locals;
  auto& cells = workers_[w].cells[at(micro_batch)];
  if (locals[at(index)].persistent()) fault(format("{} is freed", name(w, index)));
  if (++cells[at(index)].frees > 1) fault(format("{} is freed twice", name(w, index)));
  cells[at(index)].buffer = {};
  for (size_t i = 0; i < locals.size(); ++i)
    if (locals[i].storage == Storage::kAlias && locals[i].alias_of == index && cells[i].frees == 0)
      fault(format("{} is freed before its alias", name(w, index)));
}

// The loss, the scores and the labels are there when F ends.
void PartRunner::note_losses(size_t w, int micro_batch) {
  const Part& part = parts_[w];
  if (part.loss < 0) return;
  result_.losses[at(micro_batch)] = *view(w, part.loss, micro_batch, Access::kRead).f32();
  view(w, part.scores, micro_batch, Access::kRead);
  view(w, part.labels, micro_batch, Access::kRead);
}

void PartRunner::check_end(size_t w) {
  for (size_t m = 0; m < sizes_.size(); ++m) {
    if (!workers_[w].saved[m].empty()) fault(format("worker {} keeps what calls saved", w));
    for (size_t i = 0; i < parts_[w].locals.size(); ++i)
      if (!parts_[w].locals[i].persistent() && workers_[w].cells[m][i].frees != 1)
        fault(format("{} is freed {} times", name(w, static_cast<int>(i)),
                     workers_[w].cells[m][i].frees));
  }
}

void PartRunner::collect(size_t w, StepResult& result) {
  for (const StagePart& stage : parts_[w].stages)
    for (const Instruction& instruction : stage.update) {
      if (instruction.kind == Kind::kCopy) copy(w, instruction, 0);
      if (instruction.kind != Kind::kUpdate) continue;
      const Local& local = parts_[w].locals[at(instruction.other)];
      const Value& value = model_.value(local.value);
      auto& whole = result.gradients[value.name];
      whole.resize(static_cast<size_t>(value.spec.shape.elements()));
      ops::Region(ops::Box::whole(value.spec.shape.rank()), local.box, value.spec)
          .unpack(workers_[w].persistent.at(instruction.other).data(),
                  reinterpret_cast<std::byte*>(whole.data()), 0);
    }
}

}  // namespace kerf::partitioner
