#include "partitioner/onnx/evaluate.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/arithmetic.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::TensorLiteral;
using ops::TensorView;

constexpr size_t kMostWeights = size_t{1} << 31;

// The calling thread alone computes, as long as this lives.
class OneThread {
 public:
  OneThread() : before_(ops::use_threads(1)) {}
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() { ops::use_threads(before_); }

 private:
  int before_;
};

// The contents of a value that the model keeps.
TensorLiteral kept_literal(const Value& value) {
  if (value.literal != nullptr) return *value.literal;
  if (value.contents != nullptr)
    return literal_of(value.name, value.spec, *value.contents, kMostWeights);
  TensorLiteral literal{value.spec.dtype, value.spec.shape, std::string(value.spec.bytes(0), '\0')};
  ops::initialize(
      {value.spec.dtype, value.spec.shape, reinterpret_cast<std::byte*>(literal.bytes.data())},
      ops::Box::whole(value.spec.shape.rank()), value.spec.shape, value.initializer, 1,
      value.parameter);
  return literal;
}

// So that the shape with its batch in place is the tensor's.
int64_t samples_in(const Value& value, const TensorLiteral& literal) {
  const int axis = value.spec.shape.batch_axis();
  int64_t samples = 1;
  if (axis >= 0 && axis < literal.shape.rank())
    samples = literal.shape[axis] / -value.spec.shape[axis];
  if (value.spec.dtype != literal.dtype || value.spec.shape.with_batch(samples) != literal.shape)
    throw Error(ErrorCode::kUsage,
                format("it is {} {}, not {} {}", ops::to_string(value.spec.dtype),
                       ops::to_string(value.spec.shape), ops::to_string(literal.dtype),
                       ops::to_string(literal.shape)),
                format("input {}", value.name));
  return samples;
}

// A loss is the mean over the labels that there are.
double normaliser_of(const ops::BoundOperator& op, const std::vector<const TensorLiteral*>& inputs,
                     int64_t largest) {
  const bool labelled = op.is_loss() && inputs.size() > 1 && inputs[1] != nullptr;
  return static_cast<double>(labelled ? inputs[1]->shape.elements() : largest);
}

}  // namespace

Evaluator::Evaluator()
    : device_(runtime::make_cpu_device()),
      stream_(device_->make_stream()),
      bench_(ops::make_workbench(*device_, *stream_)) {
  ops::use_threads(1);  // for which run() grants memory
}

Evaluator::~Evaluator() = default;

std::vector<TensorLiteral> Evaluator::run(const ops::BoundOperator& op,
                                          const std::vector<const TensorLiteral*>& inputs,
                                          int64_t samples, uint32_t key) {
  const OneThread alone;
  const int64_t largest = std::max<int64_t>(samples, 1);
  const ops::Box whole = ops::Box::whole(static_cast<int>(op.space().axes.size()));
  const auto kernel = ops::make_kernel({op, whole, largest, *bench_});
  const ops::LocalSpecs local = ops::local_specs(op, whole, largest, samples);
  std::vector<runtime::Buffer> memory;
  const auto take = [&](size_t bytes) {
    memory.push_back(device_->allocate(std::max<size_t>(bytes, 1)));
    return memory.back().data();
  };
  std::vector<TensorView> views(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    views[i] = {inputs[i]->dtype, inputs[i]->shape, take(inputs[i]->bytes.size())};
    std::memcpy(views[i].data, inputs[i]->bytes.data(), inputs[i]->bytes.size());
  }
  std::vector<TensorView> outputs;
  for (const ops::ValueSpec& spec : local.outputs)
    outputs.push_back({spec.dtype, spec.shape, take(spec.bytes(0))});
  const auto span_of = [&](size_t bytes) { return std::span<std::byte>(take(bytes), bytes); };
  const auto kind = device_->kind();
  ops::Call call;
  call.inputs = views;
  call.outputs = outputs;
  call.reserve = span_of(op.reserve_bytes(local));
  call.handed = span_of(op.handed_bytes(local));
  call.workspace = span_of(ops::workspace_bytes(op, kind, local, 1));
  call.packed = span_of(ops::packed_bytes(op, kind, local, 1, /*gradients=*/false));
  call.samples = samples;
  call.key = {0, key, 0, 0};
  // What says that it trains has the statistics of its batch, as ONNX means it.
  call.training = op.name() == "BatchNormalization";
  call.normaliser = normaliser_of(op, inputs, largest);
  bench_->forward(*kernel, call);
  stream_->synchronize();
  bench_->check_data();
  std::vector<TensorLiteral> results;
  for (const TensorView& output : outputs)
    results.push_back(
        {output.dtype, output.shape, {reinterpret_cast<const char*>(output.data), output.bytes()}});
  return results;
}

std::vector<TensorLiteral> evaluate(const Model& model,
                                    const std::map<std::string, TensorLiteral>& inputs,
                                    Evaluator& evaluator) {
  std::vector<TensorLiteral> values(static_cast<size_t>(model.values()));
  int64_t samples = 1;
  for (ValueId id = 0; id < model.values(); ++id) {
    const Value& value = model.value(id);
    if (ops::is_kept(value.role)) values[static_cast<size_t>(id)] = kept_literal(value);
    if (value.role != Role::kInput && value.role != Role::kLabel) continue;
    const auto given = inputs.find(value.name);
    if (given == inputs.end())
      throw Error(ErrorCode::kUsage, format("input {} is missing", value.name), model.name());
    const int64_t own = samples_in(value, given->second);
    if (value.spec.shape.batched()) samples = own;
    values[static_cast<size_t>(id)] = given->second;
  }
  for (NodeId id = 0; id < model.nodes(); ++id) {
    const Node& node = model.node(id);
    std::vector<const TensorLiteral*> read;
    for (const ValueId input : node.inputs)
      read.push_back(input < 0 ? nullptr : &values[static_cast<size_t>(input)]);
    auto given = evaluator.run(*node.bound, read, samples, node.key);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      values[static_cast<size_t>(node.outputs[i])] = std::move(given[i]);
  }
  std::vector<TensorLiteral> results;
  for (const Result& result : model.results())
    results.push_back(values[static_cast<size_t>(result.value)]);
  return results;
}

}  // namespace kerf::partitioner::onnx
