#include "schedmp/training/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/metrics.h"
#include "runtime/error.h"
#include "schedmp/walk.h"

namespace kerf::schedmp {

using ops::TensorView;
using partitioner::Instruction;
using partitioner::Local;
using partitioner::LocalCall;
using partitioner::LocalKind;
using partitioner::Part;
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

}  // namespace

Executor::Executor(const partitioner::Model& model, const partitioner::Plan& plan, Part part,
                   runtime::Workplace& workplace, const ops::OptimizerOptions& optimizer,
                   uint64_t seed)
    : model_(model),
      plan_(plan),
      part_(std::move(part)),
      workplace_(workplace),
      seed_(seed),
      parameters_(model, part_, workplace.device, optimizer, seed),
      mailbox_(model, plan, workplace),
      locals_(model, part_, workplace.device, parameters_, mailbox_) {
  for (const LocalCall& call : part_.calls)
    kernels_.push_back(
        model.op(call.node).make_kernel(model.node(call.node).attributes, workplace.device));
}

bool Executor::reads_data() const {
  return std::any_of(part_.locals.begin(), part_.locals.end(),
                     [](const Local& each) { return each.kind == LocalKind::kData; });
}

bool Executor::reads_inputs() const {
  return std::any_of(part_.locals.begin(), part_.locals.end(), [&](const Local& each) {
    return each.kind == LocalKind::kData &&
           model_.value(each.value).role == partitioner::ValueRole::kInput;
  });
}

TrainingResult Executor::run(const std::vector<Action>& row, int micro_batches,
                             const StepData& data) {
  const int64_t begin_ns = runtime::now_ns();
  data_ = data;
  result_ = {};
  losses_.assign(static_cast<size_t>(micro_batches), 0);
  saved_.resize(static_cast<size_t>(micro_batches));
  for (auto& calls : saved_) calls.resize(part_.calls.size());
  mailbox_.begin(data.sequence);
  locals_.begin(data, micro_batches);
  for (const Action& action : row) run_action(action);

  for (const double loss : losses_) result_.loss += loss;
  result_.sent = mailbox_.sent();
  result_.bytes_in = mailbox_.bytes_in();
  result_.wait_ns = mailbox_.waited_ns();
  result_.compute_ns = runtime::now_ns() - begin_ns - result_.wait_ns;
  result_.peak_bytes =
      static_cast<int64_t>(workplace_.device.memory().peak + workplace_.endpoint.slot_bytes());
  return std::move(result_);
}

void Executor::run_action(const Action& action) {
  workplace_.activity.doing(kerf::format("step {}: {}", data_.step, to_string(action)));
  const Traced traced(workplace_.trace, Span::Kind::kCompute, 0, [&] { return to_string(action); });
  for (const auto* list : lists_of(part_, action))
    for (const Instruction& instruction : *list) run_instruction(instruction, action.micro_batch);
  if (!data_.training && action.kind == ActionKind::kForward) forget(action.micro_batch);
  workplace_.activity.progress();
}

void Executor::forget(int micro_batch) {
  locals_.free_all(micro_batch);
  for (runtime::Buffer& buffer : saved_[static_cast<size_t>(micro_batch)]) buffer = {};
}

void Executor::run_instruction(const Instruction& instruction, int micro_batch) {
  switch (instruction.kind) {
    case Instruction::Kind::kForward:
      return forward(instruction.call, micro_batch);
    case Instruction::Kind::kGradient:
      return gradient(instruction, micro_batch);
    case Instruction::Kind::kSend:
      return send(instruction, micro_batch);
    case Instruction::Kind::kReceive:
      return receive(instruction, micro_batch);
    case Instruction::Kind::kCopy:
      return copy(instruction, micro_batch);
    case Instruction::Kind::kZero: {
      const TensorView view = locals_.ensure(instruction.local, micro_batch);
      if (view.bytes() > 0) std::memset(view.data, 0, view.bytes());
      return;
    }
    case Instruction::Kind::kFree:
      return locals_.free(instruction.local, micro_batch);
    case Instruction::Kind::kFreeSaved:
      saved(instruction.call, micro_batch) = {};
      return;
    case Instruction::Kind::kUpdate:
      return parameters_.update(instruction.local, instruction.other);
  }
}

ops::Call Executor::make_call(int index, int micro_batch) {
  const LocalCall& call = part_.calls[static_cast<size_t>(index)];
  const partitioner::Value& output = model_.value(model_.node(call.node).outputs[0]);
  ops::Call made;
  made.inputs = inputs_;
  made.outputs = outputs_;
  made.output_gradients = output_gradients_;
  made.saved = saved(index, micro_batch).data();
  made.output_box = &call.box;
  made.output_shape = output.spec.shape.with_batch(locals_.samples(micro_batch));
  made.key = {seed_, static_cast<uint32_t>(call.node), data_.step, micro_batch};
  made.first_sample = locals_.first(micro_batch);
  made.training = data_.training;
  made.normaliser = static_cast<double>(data_.rows.size());
  return made;
}

void Executor::forward(int index, int micro_batch) {
  const LocalCall& call = part_.calls[static_cast<size_t>(index)];
  const partitioner::Node& node = model_.node(call.node);
  const Traced traced(workplace_.trace, Span::Kind::kCompute, 1, [&] { return node.name; });
  inputs_.clear();
  outputs_.clear();
  output_gradients_.clear();
  for (const int input : call.inputs) inputs_.push_back(locals_.ensure(input, micro_batch));
  for (const int output : call.outputs) outputs_.push_back(locals_.ensure(output, micro_batch));
  if (call.saved != 0) {
    std::vector<ops::ValueSpec> specs;
    for (const TensorView& input : inputs_) specs.push_back({input.dtype, input.shape});
    saved(index, micro_batch) =
        workplace_.device.allocate(model_.op(call.node).saved_bytes(node.attributes, specs));
  }
  kernels_[static_cast<size_t>(index)]->forward(make_call(index, micro_batch));
  if (model_.op(call.node).is_loss()) note_loss(call, micro_batch);
}

void Executor::note_loss(const LocalCall& call, int micro_batch) {
  const double loss = static_cast<double>(*outputs_[0].f32());
  losses_[static_cast<size_t>(micro_batch)] = loss;
  result_.has_loss = true;
  if (!data_.training) result_.correct += ops::count_correct(inputs_[0], inputs_[1]);
  if (!std::isfinite(loss))
    throw Error(ErrorCode::kUsage,
                data_.training ? "the loss is no longer a finite number; a smaller --lr may help"
                               : "the loss of these weights is no finite number",
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
  for (const int input : call.inputs) inputs_.push_back(locals_.look(input, micro_batch));
  for (const int output : call.outputs) outputs_.push_back(locals_.look(output, micro_batch));
  for (const int each : call.output_gradients)
    output_gradients_.push_back(each < 0 ? TensorView{} : locals_.look(each, micro_batch));
  for (const Instruction::Target& target : instruction.targets)
    targets_.push_back({target.input, locals_.ensure(target.local, micro_batch),
                        target.accumulate || (persistent(target.local) && micro_batch > 0)});
  kernels_[static_cast<size_t>(instruction.call)]->gradient(
      make_call(instruction.call, micro_batch), targets_);
}

size_t Executor::bytes_of(int route, int micro_batch) const {
  return message_bytes(model_, plan_.routes[static_cast<size_t>(route)],
                       locals_.samples(micro_batch));
}

void Executor::send(const Instruction& instruction, int micro_batch) {
  const int route = instruction.route;
  const Traced traced(
      workplace_.trace, Span::Kind::kSend, 2,
      [&] { return "send " + mailbox_.name_of(route, micro_batch); },
      mailbox_.flow_of(route, micro_batch));
  if (instruction.moves.empty())
    return mailbox_.commit(route, micro_batch, locals_.hand_over(instruction.local, micro_batch));
  const runtime::Slot slot = mailbox_.acquire(route, micro_batch, bytes_of(route, micro_batch));
  const int64_t samples = locals_.samples(micro_batch);
  std::byte* to = slot.data;
  for (const partitioner::Move& move : instruction.moves) {
    move.region.pack(locals_.ensure(move.local, micro_batch).data, to, samples);
    to += move.region.bytes(samples);
  }
  mailbox_.commit(route, micro_batch, slot);
}

void Executor::receive(const Instruction& instruction, int micro_batch) {
  const int route = instruction.route;
  const runtime::View message = mailbox_.take(route, micro_batch, bytes_of(route, micro_batch));
  const Traced traced(
      workplace_.trace, Span::Kind::kReceive, 2,
      [&] { return "receive " + mailbox_.name_of(route, micro_batch); },
      mailbox_.flow_of(route, micro_batch));
  if (instruction.moves.empty()) return locals_.place(instruction.local, micro_batch, message);
  const int64_t samples = locals_.samples(micro_batch);
  const std::byte* from = message.data;
  for (const partitioner::Move& move : instruction.moves) {
    const TensorView to = locals_.ensure(move.local, micro_batch);
    if (move.add)
      move.region.unpack_add(from, to.data, samples);
    else
      move.region.unpack(from, to.data, samples);
    from += move.region.bytes(samples);
  }
  mailbox_.release(route, message);
}

void Executor::copy(const Instruction& instruction, int micro_batch) {
  const partitioner::Move& from = instruction.moves[0];
  const partitioner::Move& to = instruction.moves[1];
  // The update copies between parameters' accumulators, which have no rows.
  const int64_t samples = micro_batch < 0 ? 0 : locals_.samples(micro_batch);
  const TensorView source = locals_.ensure(from.local, micro_batch);
  const TensorView target = locals_.ensure(to.local, micro_batch);
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

}  // namespace kerf::schedmp
