#include "tests/conformance/operator_runner.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/arithmetic.h"
#include "tests/conformance/guarded_memory.h"

namespace kerf::ops {
namespace {

void visit(const Box& box, const Shape& shape, int axis, int64_t base,
           std::vector<int64_t>& found) {
  if (axis == shape.rank()) {
    found.push_back(base);
    return;
  }
  const IndexSet set = clip(box.axes[static_cast<size_t>(axis)], shape[axis]);
  for (const Range& range : set.ranges(shape[axis]))
    for (int64_t i = range.begin; i < range.end; ++i)
      visit(box, shape, axis + 1, base * shape[axis] + i, found);
}

// Numbers of 16 bits, for those with few digits, which are exact, and what is not finite.
struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  explicit Float16(float x) {
    if (x == 0) {
      bits = std::signbit(x) ? 0x8000 : 0;
      return;
    }
    if (!std::isfinite(x)) {
      bits = std::isnan(x) ? 0x7E00 : x < 0 ? 0xFC00 : 0x7C00;
      return;
    }
    int exponent = 0;
    const float fraction = std::frexp(std::abs(x), &exponent);
    const auto digits = static_cast<int>(std::nearbyint(std::ldexp(fraction, 11)));
    bits = static_cast<uint16_t>((x < 0 ? 0x8000 : 0) + ((exponent + 13) << 10) + digits);
  }
  template <class T>
  explicit operator T() const {
    const float x = std::ldexp(static_cast<float>(1024 + (bits & 1023)), (bits >> 10 & 31) - 25);
    if ((bits & 0x7FFF) > 0x7C00) return static_cast<T>(NAN);
    const float size = (bits & 0x7FFF) == 0x7C00 ? INFINITY : (bits & 0x7FFF) == 0 ? 0 : x;
    return static_cast<T>(bits >> 15 != 0 ? -size : size);
  }
};
struct Bfloat16 {
  uint16_t bits = 0;
  Bfloat16() = default;
  explicit Bfloat16(float x)
      : bits(static_cast<uint16_t>((std::bit_cast<uint32_t>(x) + 0x7FFF) >> 16)) {}
  template <class T>
  explicit operator T() const {
    return static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
  }
};

// Calls work(a zero of the type).
template <class Work>
void with_type(DType dtype, const Work& work) {
  switch (dtype) {
    case DType::kFloat16:
      return work(Float16{});
    case DType::kBFloat16:
      return work(Bfloat16{});
    case DType::kFloat32:
      return work(float{});
    case DType::kFloat64:
      return work(double{});
    case DType::kInt32:
      return work(int32_t{});
    case DType::kInt64:
      return work(int64_t{});
    case DType::kInt8:
      return work(int8_t{});
    case DType::kInt16:
      return work(int16_t{});
    case DType::kUint16:
      return work(uint16_t{});
    case DType::kUint32:
      return work(uint32_t{});
    case DType::kUint64:
      return work(uint64_t{});
    default:
      KERF_CHECK(size_of(dtype) == 1, "{} is not drawn", to_string(dtype));
      return work(uint8_t{});
  }
}

std::vector<std::byte> bytes_of(const HostTensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.shape.elements()) *
                               size_of(tensor.dtype));
  with_type(tensor.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto put = [&](const auto& values) {
      KERF_CHECK(values.size() * sizeof(T) == bytes.size(), "{} values for shape {}", values.size(),
                 to_string(tensor.shape));
      std::transform(values.begin(), values.end(), reinterpret_cast<T*>(bytes.data()),
                     [](auto value) { return static_cast<T>(value); });
    };
    if (tensor.integers.empty())
      put(tensor.floats);
    else
      put(tensor.integers);
  });
  return bytes;
}

HostTensor tensor_of(const TensorView& view, const std::vector<std::byte>& bytes) {
  HostTensor host{view.dtype, view.shape, {}, {}};
  with_type(view.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* first = reinterpret_cast<const T*>(bytes.data());
    for (int64_t i = 0; i < view.elements(); ++i) {
      host.floats.push_back(static_cast<float>(first[i]));
      if (!is_floating(view.dtype)) host.integers.push_back(static_cast<int64_t>(first[i]));
    }
  });
  return host;
}

std::vector<HostTensor> download(const std::vector<TensorView>& views, runtime::Stream& stream) {
  std::vector<std::vector<std::byte>> bytes;
  for (const TensorView& view : views) {
    bytes.emplace_back(view.bytes());
    if (view.bytes() > 0) stream.copy(bytes.back().data(), view.data, view.bytes());
  }
  stream.synchronize();
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < views.size(); ++i) tensors.push_back(tensor_of(views[i], bytes[i]));
  return tensors;
}

std::vector<TensorView> only(std::vector<TensorView> views, const std::vector<int>& read) {
  for (size_t i = 0; i < views.size(); ++i)
    if (std::find(read.begin(), read.end(), static_cast<int>(i)) == read.end())
      views[i].data = nullptr;
  return views;
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
  HostTensor piece{whole.dtype, whole.shape, {}, {}};
  for (int axis = 0; axis < whole.shape.rank(); ++axis)
    piece.shape[axis] =
        clip(box.axes[static_cast<size_t>(axis)], whole.shape[axis]).size(whole.shape[axis]);
  for (const int64_t i : elements_of(box, whole.shape)) {
    const auto at = static_cast<size_t>(i);
    if (!whole.floats.empty()) piece.floats.push_back(whole.floats[at]);
    if (!whole.integers.empty()) piece.integers.push_back(whole.integers[at]);
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
  if (piece.integers.empty()) return;
  whole.integers.resize(whole.floats.size());
  for (size_t i = 0; i < where.size(); ++i) {
    int64_t& to = whole.integers[static_cast<size_t>(where[i])];
    const uint64_t before = add ? static_cast<uint64_t>(to) : 0;  // sums wrap around
    to = static_cast<int64_t>(before + static_cast<uint64_t>(piece.integers[i]));
  }
}

// Tensors of one micro-batch on the device.
struct OperatorRunner::Placed {
  std::vector<GuardedMemory> memory;  // everything that has a guard
  std::vector<int> kept;              // in `memory`, by input: what a call may not change, or -1
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  std::vector<TensorView> output_gradients;
  size_t reserve = 0;  // in `memory`, as are the next two
  size_t handed = 0;
  size_t workspace = 0;
};

OperatorRunner::OperatorRunner(std::shared_ptr<const BoundOperator> op, runtime::Device& device,
                               Box iterations, int64_t largest, int threads)
    : op_(std::move(op)),
      device_(device),
      iterations_(std::move(iterations)),
      largest_(largest),
      threads_(threads),
      stream_(device.make_stream()),
      packed_(device, *stream_, *pages_,
              packed_bytes(*op_, device.kind(), local_specs(*op_, iterations_, largest, largest),
                           threads, /*gradients=*/true)),
      bench_(make_workbench(device, *stream_)),
      kernel_(make_kernel({*op_, iterations_, largest_, *bench_})) {
  stream_->synchronize();
}

OperatorRunner::OperatorRunner(const std::shared_ptr<const BoundOperator>& op,
                               runtime::Device& device, int64_t largest, int threads)
    : OperatorRunner(op, device, Box::whole(static_cast<int>(op->space().axes.size())), largest,
                     threads) {}

OperatorRunner::Placed OperatorRunner::place(const std::vector<HostTensor>& inputs,
                                             const Moment& moment, bool accumulates) {
  const LocalSpecs local = local_specs(*op_, iterations_, largest_, moment.samples);
  Placed placed;
  const auto add = [&](size_t bytes) {
    placed.memory.emplace_back(device_, *stream_, *pages_, bytes);
    return placed.memory.back().data();
  };
  KERF_CHECK(inputs.size() == local.inputs.size(), "{} inputs", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    placed.inputs.emplace_back();
    placed.kept.push_back(-1);
    if (!op_->has(static_cast<int>(i))) continue;
    const ValueSpec& spec = local.inputs[i];
    KERF_CHECK(spec == (ValueSpec{inputs[i].dtype, inputs[i].shape}),
               "{} wants {} for input {}, not {}", op_->name(), to_string(spec.shape), i,
               to_string(inputs[i].shape));
    if (static_cast<int>(i) != moment.in_place)
      placed.kept.back() = static_cast<int>(placed.memory.size());
    placed.memory.emplace_back(device_, *stream_, *pages_, bytes_of(inputs[i]));
    placed.inputs[i] = {spec.dtype, spec.shape, placed.memory.back().data()};
  }
  for (const ValueSpec& spec : local.outputs)
    placed.outputs.push_back({spec.dtype, spec.shape, add(spec.bytes(0))});
  if (moment.in_place >= 0)
    placed.outputs[0].data = placed.inputs[static_cast<size_t>(moment.in_place)].data;
  placed.reserve = placed.memory.size();
  add(op_->reserve_bytes(local));
  placed.handed = placed.memory.size();
  add(op_->handed_bytes(local));
  placed.workspace = placed.memory.size();
  LocalSpecs most = local_specs(*op_, iterations_, largest_, largest_);
  most.accumulates = accumulates;
  add(workspace_bytes(*op_, device_.kind(), most, threads_));
  return placed;
}

Call OperatorRunner::call_of(const Placed& placed, const Moment& moment) const {
  const GuardedMemory& workspace = placed.memory[placed.workspace];
  Call call;
  call.inputs = placed.inputs;
  call.outputs = placed.outputs;
  call.workspace = workspace.span();
  call.packed = packed_.span();
  call.version = moment.version;
  call.samples = moment.samples;
  call.key = {42, 7, 3, moment.micro_batch};
  call.training = moment.training;
  call.normaliser = moment.normaliser;
  return call;
}

void OperatorRunner::run(Placed& placed, const std::function<void()>& call) {
  use_threads(threads_);
  const size_t before = device_.memory().current;
  device_.reset_peak();
  call();
  for (GuardedMemory& memory : placed.memory) memory.look_at_guard(*stream_);
  for (const int kept : placed.kept)
    if (kept >= 0) placed.memory[static_cast<size_t>(kept)].look(*stream_);
  packed_.look_at_guard(*stream_);
  stream_->synchronize();
  bench_->check_data();
  const size_t peak = device_.memory().peak;
  KERF_CHECK(peak == before, "{} took {} bytes from the device", op_->name(), peak - before);
  for (size_t i = 0; i < placed.memory.size(); ++i)
    KERF_CHECK(placed.memory[i].intact(), "{} wrote past the end of its buffer {} of {}",
               op_->name(), i, placed.memory.size());
  KERF_CHECK(packed_.intact(), "{} wrote past the end of what it keeps", op_->name());
  for (size_t i = 0; i < placed.kept.size(); ++i)
    KERF_CHECK(placed.kept[i] < 0 || placed.memory[static_cast<size_t>(placed.kept[i])].unchanged(),
               "{} changed its input {}", op_->name(), i);
}

void OperatorRunner::run_forward(Placed& placed, const Moment& moment) {
  Call call = call_of(placed, moment);
  call.reserve = placed.memory[placed.reserve].span();
  run(placed, [&] { bench_->forward(*kernel_, call); });
}

void OperatorRunner::run_gradients(Placed& placed, const Moment& moment, Phase phase,
                                   const std::vector<GradientTarget>& targets) {
  const BackwardReads reads = op_->backward_reads();
  const bool weights = phase == Phase::kWeightGradient;
  const auto inputs = only(
      placed.inputs, weights ? reads.inputs_for_weight_gradient : reads.inputs_for_input_gradient);
  const auto outputs = only(placed.outputs, weights ? reads.outputs_for_weight_gradient
                                                    : reads.outputs_for_input_gradient);
  auto upstream = placed.output_gradients;
  if (weights && !reads.output_gradients_for_weight_gradient) upstream = only(upstream, {});
  Call call = call_of(placed, moment);
  call.inputs = inputs;
  call.outputs = outputs;
  call.output_gradients = upstream;
  call.handed = placed.memory[placed.handed].span();
  if (!weights || reads.reserve_for_weight_gradient)
    call.reserve = placed.memory[placed.reserve].span();
  run(placed, [&] {
    if (weights)
      bench_->weight_gradient(*kernel_, call, targets);
    else
      bench_->input_gradient(*kernel_, call, targets);
  });
}

std::vector<HostTensor> OperatorRunner::forward(const std::vector<HostTensor>& inputs,
                                                const Moment& moment) {
  Placed placed = place(inputs, moment, false);
  run_forward(placed, moment);
  return download(placed.outputs, *stream_);
}

std::vector<HostTensor> OperatorRunner::gradients(const std::vector<HostTensor>& inputs,
                                                  const Moment& moment,
                                                  const std::vector<HostTensor>& output_gradients,
                                                  const std::vector<Asked>& asked) {
  Placed placed = place(
      inputs, moment, std::ranges::any_of(asked, [](const Asked& one) { return one.accumulate; }));
  run_forward(placed, moment);
  const auto add = [&](const HostTensor& host, bool known) {
    if (known)
      placed.memory.emplace_back(device_, *stream_, *pages_, bytes_of(host));
    else
      placed.memory.emplace_back(device_, *stream_, *pages_,
                                 ValueSpec{host.dtype, host.shape}.bytes(0));
    return TensorView{host.dtype, host.shape, placed.memory.back().data()};
  };
  for (const HostTensor& gradient : output_gradients) {
    const bool absent = gradient.floats.empty() && gradient.shape.elements() > 0;
    placed.output_gradients.push_back(absent ? TensorView{gradient.dtype, gradient.shape, nullptr}
                                             : add(gradient, true));
  }
  std::vector<GradientTarget> all;
  std::vector<GradientTarget> of_phase[2];
  for (const Asked& one : asked) {
    const bool weights = op_->inputs()[static_cast<size_t>(one.input)].in_weight_gradient();
    // What is not added to may hold anything.
    all.push_back({one.input, add(one.before, one.accumulate), one.accumulate});
    of_phase[weights ? 1 : 0].push_back(all.back());
  }
  const bool hands = placed.memory[placed.handed].bytes() > 0;
  if (hands || !of_phase[0].empty())
    run_gradients(placed, moment, Phase::kInputGradient, of_phase[0]);
  if (!of_phase[1].empty()) run_gradients(placed, moment, Phase::kWeightGradient, of_phase[1]);
  std::vector<TensorView> results;
  for (const GradientTarget& target : all) results.push_back(target.to);
  return download(results, *stream_);
}

}  // namespace kerf::ops
