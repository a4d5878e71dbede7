#include "tests/conformance/operator_runner.h"

#include <algorithm>
#include <thread>

namespace kerf::ops {
namespace {

void visit(const Box& box, const Shape& shape, int axis, int64_t base,
           std::vector<int64_t>& found) {
  if (axis == shape.rank()) {
    found.push_back(base);
    return;
  }
  for (const Range& range : box.axes[static_cast<size_t>(axis)].ranges(shape[axis]))
    for (int64_t i = range.begin; i < range.end; ++i)
      visit(box, shape, axis + 1, base * shape[axis] + i, found);
}

const void* bytes_of(const HostTensor& tensor) {
  if (tensor.dtype == DType::kInt64) return tensor.integers.data();
  return tensor.floats.data();
}

Tensor upload(const HostTensor& host, runtime::Device& device, runtime::Stream& stream) {
  Tensor tensor(device, host.dtype, host.shape);
  const auto view = tensor.view();
  if (view.bytes() > 0) stream.copy(view.data, bytes_of(host), view.bytes());
  return tensor;
}

HostTensor download(const TensorView& view, runtime::Stream& stream) {
  HostTensor host = zeros(view.shape);
  if (view.bytes() > 0) stream.copy(host.floats.data(), view.data, view.bytes());
  stream.synchronize();
  return host;
}

std::vector<TensorView> only(const std::vector<TensorView>& views, const std::vector<int>& kept) {
  auto result = views;
  for (size_t i = 0; i < result.size(); ++i)
    if (std::find(kept.begin(), kept.end(), static_cast<int>(i)) == kept.end())
      result[i].data = nullptr;
  return result;
}

}  // namespace

HostTensor zeros(const Shape& shape) {
  return {DType::kFloat32, shape, std::vector<float>(static_cast<size_t>(shape.elements())), {}};
}

std::vector<int64_t> elements_of(const Box& box, const Shape& shape) {
  std::vector<int64_t> found;
  visit(box, shape, 0, 0, found);
  return found;
}

HostTensor cut(const HostTensor& whole, const Box& box) {
  HostTensor piece{whole.dtype, local_shape(box, whole.shape), {}, {}};
  for (const int64_t i : elements_of(box, whole.shape)) {
    const auto at = static_cast<size_t>(i);
    if (whole.dtype == DType::kInt64)
      piece.integers.push_back(whole.integers[at]);
    else
      piece.floats.push_back(whole.floats[at]);
  }
  return piece;
}

void paste(const HostTensor& piece, const Box& box, HostTensor& whole, bool add) {
  const auto where = elements_of(box, whole.shape);
  KERF_CHECK(where.size() == piece.floats.size(), "a piece of another size");
  for (size_t i = 0; i < where.size(); ++i) {
    float& to = whole.floats[static_cast<size_t>(where[i])];
    to = add ? to + piece.floats[i] : piece.floats[i];
  }
}

// Tensors of one call on the device.
struct OperatorRunner::Placed {
  std::vector<Tensor> tensors;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  runtime::Buffer saved;
  Call call;
};

OperatorRunner::OperatorRunner(const Operator& op, Attributes attributes, runtime::Device& device)
    : op_(op),
      attributes_(std::move(attributes)),
      device_(device),
      stream_(device.make_stream()),
      kernel_(op.make_kernel(attributes_, device)) {}

OperatorRunner::Placed OperatorRunner::place(const std::vector<HostTensor>& inputs,
                                             const Where& where) {
  Placed placed;
  std::vector<ValueSpec> specs;
  for (const auto& input : inputs) {
    placed.tensors.push_back(upload(input, device_, *stream_));
    placed.inputs.push_back(placed.tensors.back().view());
    specs.push_back({input.dtype, input.shape});
  }
  const HostTensor garbage = [&] {
    HostTensor tensor = zeros(local_shape(where.box, where.shape));
    std::fill(tensor.floats.begin(), tensor.floats.end(), 777.0F);
    return tensor;
  }();
  placed.tensors.push_back(upload(garbage, device_, *stream_));
  placed.outputs.push_back(placed.tensors.back().view());
  placed.saved = device_.allocate(op_.saved_bytes(attributes_, specs));
  placed.call.saved = placed.saved.data();
  placed.call.output_box = &where.box;
  placed.call.output_shape = where.shape;
  placed.call.key = {42, 7, 3, 1};
  placed.call.first_sample = where.first_sample;
  placed.call.training = where.training;
  placed.call.normaliser = where.normaliser;
  placed.call.stream = stream_.get();
  return placed;
}

void OperatorRunner::run(const std::vector<HostTensor>& inputs, const std::function<void()>& call) {
  std::vector<ValueSpec> specs;
  for (const auto& input : inputs) specs.push_back({input.dtype, input.shape});
  const auto threads = static_cast<int>(std::thread::hardware_concurrency());
  const size_t allowed = op_.workspace_bytes(attributes_, specs, threads);
  const size_t before = device_.memory().current;
  device_.reset_peak();
  call();
  const size_t taken = device_.memory().peak - before;
  KERF_CHECK(taken <= allowed, "{} took {} bytes of scratch memory, not {}", op_.name(), taken,
             allowed);
  KERF_CHECK(device_.memory().current == before, "{} kept scratch memory", op_.name());
}

HostTensor OperatorRunner::forward(const std::vector<HostTensor>& inputs, const Where& where) {
  Placed placed = place(inputs, where);
  placed.call.inputs = placed.inputs;
  placed.call.outputs = placed.outputs;
  run(inputs, [&] { kernel_->forward(placed.call); });
  return download(placed.outputs[0], *stream_);
}

std::vector<HostTensor> OperatorRunner::gradient(const std::vector<HostTensor>& inputs,
                                                 const Where& where,
                                                 const HostTensor& output_gradient,
                                                 const std::vector<Asked>& asked,
                                                 bool for_weights) {
  Placed placed = place(inputs, where);
  placed.call.inputs = placed.inputs;
  placed.call.outputs = placed.outputs;
  run(inputs, [&] { kernel_->forward(placed.call); });

  const Keeps keeps = op_.keeps();
  const auto kept_inputs = only(placed.inputs, for_weights ? keeps.inputs_for_weight_gradient
                                                           : keeps.inputs_for_input_gradient);
  const auto kept_outputs =
      only(placed.outputs, for_weights ? std::vector<int>{} : keeps.outputs_for_input_gradient);
  const Tensor upstream = upload(output_gradient, device_, *stream_);
  const std::vector<TensorView> upstreams{upstream.view()};
  placed.call.inputs = kept_inputs;
  placed.call.outputs = kept_outputs;
  placed.call.output_gradients = upstreams;
  std::vector<Tensor> tensors;
  std::vector<GradientTarget> targets;
  for (const auto& one : asked) {
    tensors.push_back(upload(one.before, device_, *stream_));
    targets.push_back({one.input, tensors.back().view(), one.accumulate});
  }
  run(inputs, [&] { kernel_->gradient(placed.call, targets); });
  std::vector<HostTensor> results;
  for (const auto& target : targets) results.push_back(download(target.to, *stream_));
  return results;
}

}  // namespace kerf::ops
