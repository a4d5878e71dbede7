// What each operator costs on a device (a CPU: one thread), and on the CPU a training step chained
// from them by hand.
//
//   OMP_NUM_THREADS=1 operator_bench [--benchmark_filter=Conv] [--device cuda:0]
//
// What is told is the time of one call. On a GPU it is that of kBurst calls, from their being
// enqueued until the GPU is done, divided by their number.
//
// Images in ONNX's order and with their channels last. On a CPU also what oneDNN alone takes for
// the same: convolutions, whatever the kernel would choose, and what it has a primitive for
// (onednn_peers.h), with results compared before.
//
// FLOP/s and bytes/s are the operator's own cost() over the measured time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>

#include "bench/chain.h"
#include "bench/onednn_peers.h"
#include "ops/cpu/dnnl_conv.h"
#include "ops/operators/conv.h"
#include "ops/random.h"

namespace kerf::bench {
namespace {

using ops::Attributes;
using ops::DType;
using ops::Shape;
using ops::Tensor;

struct Scene {
  std::string name;
  std::string op;
  Attributes attributes;
  Shape input;
  std::vector<Shape> parameters;
  size_t states = 0;         // the last so many of them
  bool activations = false;  // they are activations too
};

using Ints = std::vector<int64_t>;

std::vector<Scene> scenes() {
  const Attributes transposed{{"transB", int64_t{1}}};
  const Attributes pool{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const Attributes same{{"auto_pad", "SAME_UPPER"}};
  const Attributes to_last{{"perm", Ints{0, 2, 3, 1}}};
  const Attributes training{{"training_mode", int64_t{1}}};
  const Attributes heads{
      {"is_causal", int64_t{1}}, {"q_num_heads", int64_t{8}}, {"kv_num_heads", int64_t{8}}};
  return {
      {"Gemm/4096x4096", "Gemm", transposed, {256, 4096}, {{4096, 4096}, {4096}}},
      {"Gemm/2048x2048_of_128", "Gemm", transposed, {128, 2048}, {{2048, 2048}, {2048}}},
      {"Gemm/25088x4096_of_16", "Gemm", transposed, {16, 25088}, {{4096, 25088}, {4096}}},
      {"Gemm/400x120", "Gemm", transposed, {256, 400}, {{120, 400}, {120}}},
      {"MatMul/1024x1024", "MatMul", {}, {256, 1024}, {{1024, 1024}}},
      {"Attention/gpt", "Attention", heads, {8, 128, 512}, {{8, 128, 512}, {8, 128, 512}}, 0, true},
      {"Attention/1024_causal",
       "Attention",
       heads,
       {1, 1024, 512},
       {{1, 1024, 512}, {1, 1024, 512}},
       0,
       true},
      {"Conv/lenet_1", "Conv", {{"pads", Ints{2, 2, 2, 2}}}, {256, 1, 28, 28}, {{6, 1, 5, 5}, {6}}},
      {"Conv/lenet_2", "Conv", {}, {256, 6, 14, 14}, {{16, 6, 5, 5}, {16}}},
      {"Conv/3x3_1_to_32", "Conv", same, {64, 1, 28, 28}, {{32, 1, 3, 3}, {32}}},
      {"Conv/3x3_3_to_32", "Conv", same, {32, 3, 28, 28}, {{32, 3, 3, 3}, {32}}},
      {"Conv/3x3_64", "Conv", same, {16, 64, 56, 56}, {{64, 64, 3, 3}, {64}}},
      {"Conv/3x3_256", "Conv", same, {2, 256, 14, 14}, {{256, 256, 3, 3}, {256}}},
      {"Conv/3x3_512", "Conv", same, {16, 512, 8, 8}, {{512, 512, 3, 3}, {512}}},
      {"Relu", "Relu", {}, {256, 6, 28, 28}, {}},
      {"Sigmoid", "Sigmoid", {}, {256, 1024}, {}},
      {"Tanh", "Tanh", {}, {256, 1024}, {}},
      {"MaxPool/2x2", "MaxPool", pool, {256, 6, 28, 28}, {}},
      {"MaxPool/2x2_of_64", "MaxPool", pool, {16, 64, 56, 56}, {}},
      {"AveragePool/2x2", "AveragePool", pool, {256, 6, 28, 28}, {}},
      {"AveragePool/2x2_of_64", "AveragePool", pool, {16, 64, 56, 56}, {}},
      {"BatchNormalization/6",
       "BatchNormalization",
       training,
       {256, 6, 28, 28},
       {{6}, {6}, {6}, {6}},
       2},
      {"BatchNormalization/64",
       "BatchNormalization",
       training,
       {16, 64, 56, 56},
       {{64}, {64}, {64}, {64}},
       2},
      {"LayerNormalization", "LayerNormalization", {}, {256, 1024}, {{1024}, {1024}}},
      {"Add/bias", "Add", {}, {256, 4096}, {{4096}}},
      {"Softmax", "Softmax", {}, {256, 1000}, {}},
      {"Transpose/1024x1024", "Transpose", {}, {1024, 1024}, {}},
      {"Transpose/channels_to_last", "Transpose", to_last, {16, 64, 56, 56}, {}},
      {"Dropout", "Dropout", {{"ratio", 0.5}}, {256, 4096}, {}},
  };
}

constexpr int kBurst = 16;

// The scene with its images' channels last; nothing where it has none.
std::optional<Scene> channels_last(const Scene& scene) {
  const ops::OperatorDefinition& definition = ops::find_operator(scene.op);
  ops::NodeFacts facts{scene.attributes, {{{DType::kFloat32, scene.input}}}};
  facts.inputs.resize(1 + scene.parameters.size());
  for (size_t i = 0; i < scene.parameters.size(); ++i)
    facts.inputs[i + 1].spec = {DType::kFloat32, scene.parameters[i]};
  if (definition.channels_last == nullptr) return std::nullopt;
  const auto node = definition.channels_last(facts);
  if (!node) return std::nullopt;
  return Scene{scene.name + "/channels_last",
               scene.op,
               node->attributes,
               ops::stored_shape(ops::ImageFormat::kChannelsLast, scene.input),
               scene.parameters,
               scene.states,
               scene.activations};
}

Tensor random_tensor(runtime::Device& device, runtime::Stream& stream, const Shape& shape,
                     uint32_t purpose) {
  Tensor tensor(device, DType::kFloat32, shape);
  std::vector<float> numbers(static_cast<size_t>(shape.elements()));
  ops::fill_uniform({1, purpose, 0, 0}, 0, numbers);
  stream.copy(tensor.view().data, numbers.data(), tensor.view().bytes());
  stream.synchronize();
  return tensor;
}

// One operator with all that a call needs.
class Bench {
 public:
  Bench(const Scene& scene, const std::string& device)
      : device_(runtime::make_device(device)),
        activations_(scene.activations ? scene.parameters.size() + 1 : 1),
        trained_(scene.activations ? 0 : scene.parameters.size() - scene.states) {
    inputs_.push_back(random_tensor(*device_, *stream_, scene.input, 1));
    for (const auto& shape : scene.parameters)
      inputs_.push_back(random_tensor(*device_, *stream_, shape, 2));
    ops::NodeFacts facts{scene.attributes, {}, 1};
    for (const auto& input : inputs_) {
      const size_t at = facts.inputs.size();
      const bool state = at >= activations_ + trained_;
      facts.inputs.push_back({{DType::kFloat32, input.shape()},
                              at < activations_ ? ops::Role::kActivation
                              : state           ? ops::Role::kState
                                                : ops::Role::kParameter,
                              !state});
      gradients_.push_back(random_tensor(*device_, *stream_, input.shape(), 3));
      input_views_.push_back(input.view());
    }
    op_ = ops::bind_operator(ops::find_operator(scene.op), facts);
    const ops::Box whole = ops::Box::whole(static_cast<int>(op_->space().axes.size()));
    const int64_t samples = scene.input[0];
    kernel_ = ops::make_kernel({*op_, whole, samples, *bench_});
    output_ = random_tensor(*device_, *stream_, op_->outputs()[0].shape, 4);
    upstream_ = random_tensor(*device_, *stream_, op_->outputs()[0].shape, 5);
    output_view_ = output_.view();
    upstream_view_ = upstream_.view();
    const ops::LocalSpecs local = ops::local_specs(*op_, whole, samples, samples);
    reserve_ = device_->allocate(op_->reserve_bytes(local));
    handed_ = device_->allocate(op_->handed_bytes(local));
    workspace_ = device_->allocate(ops::workspace_bytes(*op_, device_->kind(), local, 1));
    packed_ = device_->allocate(ops::packed_bytes(*op_, device_->kind(), local, 1, true));
    cost_ = op_->cost(local);
    call_.inputs = input_views_;
    call_.outputs = {&output_view_, 1};
    call_.output_gradients = {&upstream_view_, 1};
    call_.reserve = {reserve_.data(), reserve_.bytes()};
    call_.handed = {handed_.data(), handed_.bytes()};
    call_.workspace = {workspace_.data(), workspace_.bytes()};
    call_.packed = {packed_.data(), packed_.bytes()};
    call_.version = 1;  // as in all but the first micro-batch of a step
    call_.samples = samples;
    enqueue(Phase::kForward);
    stream_->synchronize();
  }

  // Seconds of a call; of many at a time where calls return before they are done.
  double run(Phase phase) {
    const int burst = device_->kind() == runtime::DeviceKind::kCpu ? 1 : kBurst;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < burst; ++i) enqueue(phase);
    stream_->synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / burst;
  }
  const ops::Cost& cost() const { return cost_; }
  const ops::BoundOperator& op() const { return *op_; }
  const ops::Call& call() const { return call_; }
  // What the phase computes, and W adds to; on a CPU.
  std::span<float> result(Phase phase) const {
    const ops::TensorView& to = phase == Phase::kForward         ? output_view_
                                : phase == Phase::kInputGradient ? gradients_[0].view()
                                                                 : gradients_[1].view();
    return {to.f32(), static_cast<size_t>(to.elements())};
  }

 private:
  void enqueue(Phase phase) {
    if (phase == Phase::kForward) return bench_->forward(*kernel_, call_);
    std::vector<ops::GradientTarget> targets;
    if (phase == Phase::kInputGradient) {
      for (size_t i = 0; i < activations_; ++i)
        targets.push_back({static_cast<int>(i), gradients_[i].view(), false});
      return bench_->input_gradient(*kernel_, call_, targets);
    }
    for (size_t i = 1; i <= trained_; ++i)
      targets.push_back({static_cast<int>(i), gradients_[i].view(), true});
    bench_->weight_gradient(*kernel_, call_, targets);
  }

  std::unique_ptr<runtime::Device> device_;
  size_t activations_;  // the first so many inputs
  size_t trained_;      // so many behind them have gradients of W
  std::unique_ptr<runtime::Stream> stream_ = device_->make_stream();
  std::unique_ptr<ops::Workbench> bench_ = ops::make_workbench(*device_, *stream_);
  std::shared_ptr<const ops::BoundOperator> op_;
  std::unique_ptr<ops::Kernel> kernel_;
  std::vector<Tensor> inputs_, gradients_;
  std::vector<ops::TensorView> input_views_;
  Tensor output_, upstream_;
  ops::TensorView output_view_, upstream_view_;
  runtime::Buffer reserve_, handed_, workspace_, packed_;
  ops::Call call_;
  ops::Cost cost_;
};

// One that fails leaves the others to be measured.
void measure(benchmark::State& state, const Scene& scene, const std::string& device, Phase phase) {
  ops::Cost cost;
  try {
    Bench bench(scene, device);
    for (auto _ : state) state.SetIterationTime(bench.run(phase));
    cost = bench.cost();
  } catch (const Error& error) {
    return state.SkipWithError(error.what());
  }
  const bool forward = phase == Phase::kForward;
  const bool input = phase == Phase::kInputGradient;
  const double flops = forward ? cost.forward_flops
                       : input ? cost.input_gradient_flops
                               : cost.weight_gradient_flops;
  const double bytes = forward ? cost.forward_bytes
                       : input ? cost.input_gradient_bytes
                               : cost.weight_gradient_bytes;
  state.counters["FLOP/s"] = {flops, benchmark::Counter::kIsIterationInvariantRate};
  state.counters["B/s"] = {bytes, benchmark::Counter::kIsIterationInvariantRate};
}

// oneDNN's own, where a kernel is written by hand: the figure that it must beat to stay.
void measure_library_conv(benchmark::State& state, const Scene& scene, Phase phase) {
  using ops::cpu::DnnlConv;
  const auto device = runtime::make_cpu_device();
  ops::NodeFacts facts{scene.attributes, {{{DType::kFloat32, scene.input}}}};
  for (const Shape& shape : scene.parameters)
    facts.inputs.push_back({{DType::kFloat32, shape}, ops::Role::kParameter, true});
  const ops::Conv op(facts);
  const Shape x = ops::onnx_shape(op.images(), scene.input);
  const ops::cpu::ConvProblem problem{op.images(), x[0],       x[1], scene.parameters[0][0],
                                      op.groups(), op.window()};
  const auto stream = device->make_stream();
  const auto random = [&](const Shape& shape, uint32_t purpose) {
    return random_tensor(*device, *stream, shape, purpose);
  };
  const Tensor input = random(scene.input, 1);
  const Tensor weights = random(scene.parameters[0], 2);
  const Tensor bias = random(scene.parameters[1], 2);
  const Tensor output = random(op.outputs()[0].shape, 3);
  const runtime::Buffer scratch = device->allocate(DnnlConv::workspace_bytes(problem, 1));
  const runtime::Buffer kept = device->allocate(DnnlConv::packed_bytes(problem, 1, true, true));
  const ops::cpu::PackedWeights packed{{kept.data(), kept.bytes()}, 1};
  const ops::Workspace workspace({scratch.data(), scratch.bytes()});
  DnnlConv conv;
  for (auto _ : state)
    if (phase == Phase::kForward)
      conv.forward(problem, input.view().f32(), weights.view().f32(), bias.view().f32(),
                   output.view().f32(), packed, workspace);
    else if (phase == Phase::kInputGradient)
      conv.input_gradient(problem, weights.view().f32(), output.view().f32(), input.view().f32(),
                          packed, workspace);
    else
      conv.weight_gradient(problem, input.view().f32(), output.view().f32(), weights.view().f32(),
                           bias.view().f32(), workspace);
}

// Two orders of a sum apart at most: oneDNN takes means of 200,000 numbers in float.
void check_alike(const std::string& scene, std::span<const float> ours,
                 std::span<const float> theirs) {
  KERF_CHECK(ours.size() == theirs.size(), "{}: {} numbers against {}", scene, ours.size(),
             theirs.size());
  float most = 0;
  for (const float number : ours) most = std::max(most, std::abs(number));
  for (size_t i = 0; i < ours.size(); ++i)
    KERF_CHECK(std::abs(ours[i] - theirs[i]) <= 1e-4F * most, "{}: number {} is {}, oneDNN's {}",
               scene, i, ours[i], theirs[i]);
}

void measure_peer(benchmark::State& state, const Scene& scene, Phase phase) {
  Bench bench(scene, "cpu");
  OnednnPeer peer(bench.op(), bench.call());
  if (!peer.has(phase)) return state.SkipWithError("oneDNN has none");
  if (phase == Phase::kWeightGradient) std::ranges::fill(bench.result(phase), 0.0F);
  peer.run(Phase::kForward);
  bench.run(phase);
  peer.run(phase);
  check_alike(scene.name, bench.result(phase), peer.result(phase));
  for (auto _ : state) peer.run(phase);
}

void measure_step(benchmark::State& state, const std::vector<Link>& links, const Shape& input) {
  const auto device = runtime::make_cpu_device();
  Chain chain(*device, links, input, 10);
  for (auto _ : state) benchmark::DoNotOptimize(chain.step());
}

void add_benchmarks(const std::string& device) {
  std::vector<Scene> all;
  for (const Scene& scene : scenes()) {
    all.push_back(scene);
    if (auto last = channels_last(scene)) all.push_back(*std::move(last));
  }
  for (const auto& scene : all) {
    const auto add = [&](const char* suffix, Phase phase) {
      benchmark::RegisterBenchmark((scene.name + suffix).c_str(), measure, scene, device, phase)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    };
    add("/F", Phase::kForward);
    add("/I", Phase::kInputGradient);
    if (!scene.parameters.empty() && !scene.activations) add("/W", Phase::kWeightGradient);
    const bool conv = scene.op == "Conv";
    if (device != "cpu" || !(conv || OnednnPeer::has(scene.op))) continue;
    const auto add_library = [&](const char* suffix, Phase phase) {
      benchmark::RegisterBenchmark((scene.name + "/oneDNN" + suffix).c_str(),
                                   conv ? measure_library_conv : measure_peer, scene, phase)
          ->Unit(benchmark::kMillisecond);
    };
    add_library("/F", Phase::kForward);
    add_library("/I", Phase::kInputGradient);
    if (conv || scene.op == "Add") add_library("/W", Phase::kWeightGradient);
  }
  if (device != "cpu") return;  // the chain is laid out by the host
  benchmark::RegisterBenchmark("step/lenet5", measure_step, lenet5_links(), Shape{256, 28, 28, 1})
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("step/mlp", measure_step, mlp_links({784, 4096, 4096, 10}),
                               Shape{256, 784})
      ->Unit(benchmark::kMillisecond);
}

// Takes --device NAME out of the arguments.
std::string device_of(int& argc, char** argv) {
  std::string device = "cpu";
  int kept = 1;
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--device" && i + 1 < argc)
      device = argv[++i];
    else
      argv[kept++] = argv[i];
  argc = kept;
  return device;
}

int run_benchmarks(int argc, char** argv) {
  add_benchmarks(device_of(argc, argv));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace kerf::bench

int main(int argc, char** argv) {
  try {
    return kerf::bench::run_benchmarks(argc, argv);
  } catch (const kerf::Error& error) {
    std::fprintf(stderr, "operator_bench: error: %s\n", error.what());
    return 2;
  }
}
