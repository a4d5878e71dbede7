#include "schedmp/training/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/metrics.h"
#include "runtime/error.h"
#include "schedmp/training/lanes.h"
#include "schedmp/walk.h"

namespace kerf::schedmp {

using ops::TensorView;
using partitioner::Instruction;
using partitioner::Local;
using partitioner::LocalCall;
using partitioner::LocalKind;
using partitioner::Route;
using partitioner::Storage;
using runtime::Span;

namespace {

// Adds a span to the trace when it ends; costs a clock reading only while tracing.
class Traced {
 public:
  template <class Name>
  Traced(runtime::Trace& trace, Span::Kind kind, int lane, Name&& name, uint64_t flow = 0)
      : trace_(trace) {
    if (trace_.on()) span_ = Span{name(), kind, lane, runtime::now_ns(), 0, flow};
  }
  ~Traced() {
    if (!span_) return;
    span_->end_ns = runtime::now_ns();
    trace_.add(std::move(*span_));
  }
  Traced(const Traced&) = delete;

 private:
  runtime::Trace& trace_;
  std::optional<Span> span_;
};

// Equal at a send and its receive, different for any two messages of a run.
uint64_t flow_of(const runtime::Tag& tag) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(tag[2])) << 32 |
          static_cast<uint64_t>(static_cast<uint32_t>(tag[0])) << 12 |
          static_cast<uint32_t>(tag[1])) +
         1;
}

}  // namespace

Executor::Executor(const partitioner::Model& model, const partitioner::Plan& plan,
                   partitioner::Part part, runtime::Workplace& workplace,
                   const ops::OptimizerOptions& optimizer, uint64_t seed)
    : model_(model),
      plan_(plan),
      part_(std::move(part)),
      workplace_(workplace),
      optimizer_(ops::make_optimizer(optimizer, workplace.device)),
      seed_(seed),
      mailbox_(workplace),
      lanes_(lanes_of_routes(plan)),
      persistent_(part_.locals.size()),
      states_(part_.locals.size()) {
  for (const LocalCall& call : part_.calls)
    kernels_.push_back(
        model.op(call.node).make_kernel(model.node(call.node).attributes, workplace.device));
  for (const Route& each : plan.routes) sent_.push_back({each.id, 0, 0});
  initialize(seed);
}

Executor::~Executor() = default;

bool Executor::persistent(int index) const {
  return local(index).kind == LocalKind::kParameter ||
         local(index).kind == LocalKind::kParameterGradient;
}

int Executor::receiver_of(const Route& each) const {
  return plan_.binding[static_cast<size_t>(each.to)];
}

int Executor::sender_of(const Route& each) const {
  return plan_.binding[static_cast<size_t>(each.from)];
}

std::string Executor::name_of(const Route& each, int micro_batch) const {
  return kerf::format("{}{} of micro-batch {}", each.gradient ? "the gradient of " : "",
                      model_.value(each.value).name, micro_batch);
}

runtime::Tag Executor::tag_of(int index, int micro_batch) const {
  return {index, micro_batch, static_cast<int32_t>(data_.sequence & 0x7fffffff), 0};
}

void Executor::initialize(uint64_t seed) {
  for (size_t i = 0; i < part_.locals.size(); ++i) {
    const Local& each = part_.locals[i];
    if (!persistent(static_cast<int>(i))) continue;
    persistent_[i] = ops::Tensor(workplace_.device, each.spec.dtype, each.spec.shape);
    const TensorView view = persistent_[i].view();
    const partitioner::Value& value = model_.value(each.value);
    if (each.kind == LocalKind::kParameterGradient) {
      std::memset(view.data, 0, view.bytes());
      continue;
    }
    ops::initialize(view, each.box, value.spec.shape, value.initializer, seed, value.parameter);
    for (int state = 0; state < optimizer_->states(); ++state) {
      states_[i].emplace_back(workplace_.device, each.spec.dtype, each.spec.shape);
      const TensorView memory = states_[i].back().view();
      std::memset(memory.data, 0, memory.bytes());
    }
  }
}

bool Executor::reads_data() const {
  return std::any_of(part_.locals.begin(), part_.locals.end(),
                     [](const Local& each) { return each.kind == LocalKind::kData; });
}

TrainingResult Executor::run(const std::vector<Action>& row, int micro_batches,
                             const StepData& data) {
  const int64_t begin_ns = runtime::now_ns();
  const int64_t waited_before = mailbox_.waited_ns();
  const int64_t bytes_in_before = mailbox_.bytes_in();
  begin(data, micro_batches);
  for (const Action& action : row) run_action(action);

  for (const double loss : losses_) result_.loss += loss;
  for (RouteCount& count : sent_)
    if (count.messages > 0) {
      result_.sent.push_back(count);
      count.messages = count.bytes = 0;
    }
  result_.wait_ns = mailbox_.waited_ns() - waited_before;
  result_.compute_ns = runtime::now_ns() - begin_ns - result_.wait_ns;
  result_.bytes_in = mailbox_.bytes_in() - bytes_in_before;
  result_.peak_bytes =
      static_cast<int64_t>(workplace_.device.memory().peak + workplace_.endpoint.slot_bytes());
  return std::move(result_);
}

void Executor::begin(const StepData& data, int micro_batches) {
  data_ = data;
  result_ = {};
  losses_.assign(static_cast<size_t>(micro_batches), 0);
  micro_batches_.resize(static_cast<size_t>(micro_batches));
  const std::vector<int64_t> sizes =
      partitioner::micro_batch_sizes(static_cast<int64_t>(data.rows.size()), micro_batches);
  int64_t first = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    MicroBatch& micro_batch = micro_batches_[i];
    micro_batch.first = first;
    micro_batch.samples = sizes[i];
    micro_batch.cells.resize(part_.locals.size());
    micro_batch.saved.resize(part_.calls.size());
    first += sizes[i];
  }
}

void Executor::run_action(const Action& action) {
  workplace_.activity.doing(kerf::format("step {}: {}", data_.step, to_string(action)));
  const Traced traced(workplace_.trace, Span::Kind::kCompute, 0, [&] { return to_string(action); });
  for (const auto* list : lists_of(part_, action))
    for (const Instruction& instruction : *list) run_instruction(instruction, action);
  if (!data_.training && action.kind == ActionKind::kForward)
    for (size_t i = 0; i < part_.locals.size(); ++i)
      free_local(static_cast<int>(i), action.micro_batch);
  workplace_.activity.progress();
}

void Executor::run_instruction(const Instruction& instruction, const Action& action) {
  const int mb = action.micro_batch;
  switch (instruction.kind) {
    case Instruction::Kind::kForward:
      return forward(part_.calls[static_cast<size_t>(instruction.call)], instruction.call, mb);
    case Instruction::Kind::kGradient:
      return gradient(instruction, mb);
    case Instruction::Kind::kSend:
      return send(instruction, mb);
    case Instruction::Kind::kReceive:
      return receive(instruction, mb);
    case Instruction::Kind::kCopy:
      return copy(instruction, mb);
    case Instruction::Kind::kZero: {
      const TensorView view = ensure(instruction.local, mb);
      if (view.bytes() > 0) std::memset(view.data, 0, view.bytes());
      return;
    }
    case Instruction::Kind::kFree:
      return free_local(instruction.local, mb);
    case Instruction::Kind::kFreeSaved:
      micro_batches_[static_cast<size_t>(mb)].saved[static_cast<size_t>(instruction.call)] = {};
      return;
    case Instruction::Kind::kUpdate:
      return update(instruction);
  }
}

ops::Call Executor::make_call(const LocalCall& call, int index, int micro_batch) {
  const MicroBatch& mb = micro_batches_[static_cast<size_t>(micro_batch)];
  const partitioner::Value& output = model_.value(model_.node(call.node).outputs[0]);
  ops::Call made;
  made.inputs = inputs_;
  made.outputs = outputs_;
  made.output_gradients = output_gradients_;
  made.saved = mb.saved[static_cast<size_t>(index)].data();
  made.output_box = &call.box;
  made.output_shape = output.spec.shape.with_batch(mb.samples);
  made.key = {seed_, static_cast<uint32_t>(call.node), data_.step, micro_batch};
  made.first_sample = mb.first;
  made.training = data_.training;
  made.normaliser = static_cast<double>(data_.rows.size());
  return made;
}

void Executor::forward(const LocalCall& call, int index, int micro_batch) {
  const Traced traced(workplace_.trace, Span::Kind::kCompute, 1,
                      [&] { return model_.node(call.node).name; });
  inputs_.clear();
  outputs_.clear();
  output_gradients_.clear();
  for (const int input : call.inputs) inputs_.push_back(ensure(input, micro_batch));
  for (const int output : call.outputs) outputs_.push_back(ensure(output, micro_batch));
  if (call.saved != 0) {
    std::vector<ops::ValueSpec> specs;
    for (const TensorView& input : inputs_) specs.push_back({input.dtype, input.shape});
    micro_batches_[static_cast<size_t>(micro_batch)].saved[static_cast<size_t>(index)] =
        workplace_.device.allocate(
            model_.op(call.node).saved_bytes(model_.node(call.node).attributes, specs));
  }
  kernels_[static_cast<size_t>(index)]->forward(make_call(call, index, micro_batch));
  if (model_.op(call.node).is_loss()) note_loss(call, micro_batch);
}

void Executor::note_loss(const LocalCall& call, int micro_batch) {
  const double loss = static_cast<double>(*outputs_[0].f32());
  losses_[static_cast<size_t>(micro_batch)] = loss;
  result_.has_loss = true;
  if (!data_.training) result_.correct += ops::count_correct(inputs_[0], inputs_[1]);
  if (!std::isfinite(loss))
    throw Error(ErrorCode::kUsage, "the loss is no longer a finite number; a smaller --lr may help",
                kerf::format("{}, step {}", model_.node(call.node).name, data_.step));
}

void Executor::gradient(const Instruction& instruction, int micro_batch) {
  const LocalCall& call = part_.calls[static_cast<size_t>(instruction.call)];
  const Traced traced(workplace_.trace, Span::Kind::kCompute, 1,
                      [&] { return model_.node(call.node).name + " gradient"; });
  inputs_.clear();
  outputs_.clear();
  output_gradients_.clear();
  targets_.clear();
  for (const int input : call.inputs) inputs_.push_back(look(input, micro_batch));
  for (const int output : call.outputs) outputs_.push_back(look(output, micro_batch));
  for (const int each : call.output_gradients)
    output_gradients_.push_back(each < 0 ? TensorView{} : look(each, micro_batch));
  for (const Instruction::Target& target : instruction.targets)
    targets_.push_back({target.input, ensure(target.local, micro_batch),
                        target.accumulate || (persistent(target.local) && micro_batch > 0)});
  kernels_[static_cast<size_t>(instruction.call)]->gradient(
      make_call(call, instruction.call, micro_batch), targets_);
}

void Executor::send(const Instruction& instruction, int micro_batch) {
  const Route& each = route(instruction.route);
  const runtime::Tag tag = tag_of(each.id, micro_batch);
  const Traced traced(
      workplace_.trace, Span::Kind::kSend, 2, [&] { return "send " + name_of(each, micro_batch); },
      flow_of(tag));
  const int peer = receiver_of(each);
  const int64_t samples = micro_batches_[static_cast<size_t>(micro_batch)].samples;
  runtime::Slot slot;
  if (instruction.moves.empty()) {
    ensure(instruction.local, micro_batch);
    Cell& cell = micro_batches_[static_cast<size_t>(micro_batch)]
                     .cells[static_cast<size_t>(instruction.local)];
    slot = *cell.slot;
    cell.slot.reset();
  } else {
    slot = mailbox_.acquire(peer, lanes_[static_cast<size_t>(each.id)],
                            message_bytes(model_, each, samples), name_of(each, micro_batch));
    std::byte* to = slot.data;
    for (const partitioner::Move& move : instruction.moves) {
      move.region.pack(ensure(move.local, micro_batch).data, to, samples);
      to += move.region.bytes(samples);
    }
  }
  RouteCount& count = sent_[static_cast<size_t>(each.id)];
  ++count.messages;
  count.bytes += static_cast<int64_t>(slot.bytes);
  workplace_.endpoint.sender(peer).commit(slot, tag);
}

void Executor::receive(const Instruction& instruction, int micro_batch) {
  const Route& each = route(instruction.route);
  const runtime::Tag tag = tag_of(each.id, micro_batch);
  const int peer = sender_of(each);
  const std::string name = name_of(each, micro_batch);
  const runtime::View message = mailbox_.take(peer, tag, name);
  const Traced traced(
      workplace_.trace, Span::Kind::kReceive, 2, [&] { return "receive " + name; }, flow_of(tag));
  MicroBatch& mb = micro_batches_[static_cast<size_t>(micro_batch)];
  if (message.bytes != message_bytes(model_, each, mb.samples))
    throw Error(ErrorCode::kProtocol,
                kerf::format("{} bytes came for {}, expected {}", message.bytes, name,
                             message_bytes(model_, each, mb.samples)),
                kerf::format("worker {}", peer));
  if (instruction.moves.empty()) {
    Cell& cell = mb.cells[static_cast<size_t>(instruction.local)];
    const ops::ValueSpec& spec = local(instruction.local).spec;
    // Nobody writes to a local that is read in place.
    cell.view = {spec.dtype, spec.shape.with_batch(mb.samples),
                 const_cast<std::byte*>(message.data)};
    cell.message = message;
    cell.live = true;
    return;
  }
  const std::byte* from = message.data;
  for (const partitioner::Move& move : instruction.moves) {
    const TensorView to = ensure(move.local, micro_batch);
    if (move.add)
      move.region.unpack_add(from, to.data, mb.samples);
    else
      move.region.unpack(from, to.data, mb.samples);
    from += move.region.bytes(mb.samples);
  }
  mailbox_.release(peer, message);
}

void Executor::copy(const Instruction& instruction, int micro_batch) {
  const partitioner::Move& from = instruction.moves[0];
  const partitioner::Move& to = instruction.moves[1];
  // The update copies between parameters' accumulators, which have no rows.
  const int64_t samples =
      micro_batch < 0 ? 0 : micro_batches_[static_cast<size_t>(micro_batch)].samples;
  const TensorView source = ensure(from.local, micro_batch);
  const TensorView target = ensure(to.local, micro_batch);
  runtime::Buffer dense;
  const std::byte* piece = source.data;
  if (!from.region.everything()) {
    dense = workplace_.device.allocate(from.region.bytes(samples));
    from.region.pack(source.data, dense.data(), samples);
    piece = dense.data();
  }
  if (to.add)
    to.region.unpack_add(piece, target.data, samples);
  else
    to.region.unpack(piece, target.data, samples);
}

void Executor::free_local(int index, int micro_batch) {
  if (persistent(index)) return;
  Cell& cell = micro_batches_[static_cast<size_t>(micro_batch)].cells[static_cast<size_t>(index)];
  if (!cell.live) return;
  if (cell.message) mailbox_.release(sender_of(route(local(index).route)), *cell.message);
  if (cell.slot)
    workplace_.endpoint.sender(receiver_of(route(local(index).route))).abandon(*cell.slot);
  cell = {};
}

void Executor::update(const Instruction& instruction) {
  const auto parameter = static_cast<size_t>(instruction.local);
  std::vector<TensorView> states;
  for (const ops::Tensor& state : states_[parameter]) states.push_back(state.view());
  optimizer_->update(persistent_[parameter].view(),
                     persistent_[static_cast<size_t>(instruction.other)].view(), states);
}

TensorView Executor::look(int index, int micro_batch) {
  if (persistent(index)) return persistent_[static_cast<size_t>(index)].view();
  const Cell& cell =
      micro_batches_[static_cast<size_t>(micro_batch)].cells[static_cast<size_t>(index)];
  if (cell.live) return cell.view;
  if (local(index).storage == Storage::kAlias) {
    TensorView view = look(local(index).alias_of, micro_batch);
    view.shape = local(index).spec.shape.with_batch(
        micro_batches_[static_cast<size_t>(micro_batch)].samples);
    return view;
  }
  return {
      local(index).spec.dtype,
      local(index).spec.shape.with_batch(micro_batches_[static_cast<size_t>(micro_batch)].samples),
      nullptr};
}

TensorView Executor::ensure(int index, int micro_batch) {
  if (persistent(index)) return persistent_[static_cast<size_t>(index)].view();
  MicroBatch& mb = micro_batches_[static_cast<size_t>(micro_batch)];
  Cell& cell = mb.cells[static_cast<size_t>(index)];
  if (cell.live) return cell.view;
  const Local& each = local(index);
  TensorView view{each.spec.dtype, each.spec.shape.with_batch(mb.samples), nullptr};
  switch (each.storage) {
    case Storage::kOwn:
      cell.buffer = workplace_.device.allocate(view.bytes());
      view.data = cell.buffer.data();
      if (each.kind == LocalKind::kData) read_data(index, view, mb);
      break;
    case Storage::kAlias:
      view.data = ensure(each.alias_of, micro_batch).data;
      return view;
    case Storage::kSent: {
      const Route& to = route(each.route);
      cell.slot = mailbox_.acquire(receiver_of(to), lanes_[static_cast<size_t>(to.id)],
                                   view.bytes(), name_of(to, micro_batch));
      view.data = cell.slot->data;
      break;
    }
    case Storage::kReceived:
      KERF_CHECK(false, "{} is used before it was received", model_.value(each.value).name);
  }
  cell.view = view;
  cell.live = true;
  return view;
}

void Executor::read_data(int index, const TensorView& to, const MicroBatch& mb) {
  const Local& each = local(index);
  KERF_CHECK(data_.dataset != nullptr, "no data set for {}", model_.value(each.value).name);
  const auto rows =
      data_.rows.subspan(static_cast<size_t>(mb.first), static_cast<size_t>(mb.samples));
  const bool label = model_.value(each.value).role == partitioner::ValueRole::kLabel;
  if (each.box.is_whole()) {
    if (label)
      data_.dataset->read_labels(rows, to);
    else
      data_.dataset->read_features(rows, to);
    return;
  }
  const ops::ValueSpec& whole = model_.value(each.value).spec;
  const ops::Tensor all(workplace_.device, whole.dtype, whole.shape.with_batch(mb.samples));
  data_.dataset->read_features(rows, all.view());
  ops::Region(ops::Box::whole(whole.shape.rank()), each.box, whole)
      .pack(all.view().data, to.data, mb.samples);
}

}  // namespace kerf::schedmp
