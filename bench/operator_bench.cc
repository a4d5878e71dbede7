// What each operator costs on one thread, and a training step chained from them by hand.
//
//   OMP_NUM_THREADS=1 operator_bench [--benchmark_filter=Conv]
//
// FLOP/s and bytes/s are the operator's own cost() over the measured time.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "bench/chain.h"
#include "ops/random.h"

namespace kerf::bench {
namespace {

using ops::Attributes;
using ops::DType;
using ops::Shape;
using ops::Tensor;

enum class Phase { kForward, kInputGradient, kWeightGradient };

struct Scene {
  std::string name;
  std::string op;
  Attributes attributes;
  Shape input;
  std::vector<Shape> parameters;
};

using Ints = std::vector<int64_t>;

std::vector<Scene> scenes() {
  const Attributes transposed{{"transB", int64_t{1}}};
  const Attributes pool{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const Attributes same{{"auto_pad", "SAME_UPPER"}};
  return {
      {"Gemm/4096x4096", "Gemm", transposed, {256, 4096}, {{4096, 4096}, {4096}}},
      {"Gemm/2048x2048_of_128", "Gemm", transposed, {128, 2048}, {{2048, 2048}, {2048}}},
      {"Gemm/400x120", "Gemm", transposed, {256, 400}, {{120, 400}, {120}}},
      {"MatMul/1024x1024", "MatMul", {}, {256, 1024}, {{1024, 1024}}},
      {"Conv/lenet_1", "Conv", {{"pads", Ints{2, 2, 2, 2}}}, {256, 1, 28, 28}, {{6, 1, 5, 5}, {6}}},
      {"Conv/lenet_2", "Conv", {}, {256, 6, 14, 14}, {{16, 6, 5, 5}, {16}}},
      {"Conv/3x3_64", "Conv", same, {16, 64, 56, 56}, {{64, 64, 3, 3}, {64}}},
      {"Relu", "Relu", {}, {256, 6, 28, 28}, {}},
      {"MaxPool/2x2", "MaxPool", pool, {256, 6, 28, 28}, {}},
      {"AveragePool/2x2", "AveragePool", pool, {256, 6, 28, 28}, {}},
      {"Add/bias", "Add", {}, {256, 4096}, {{4096}}},
      {"Softmax", "Softmax", {}, {256, 1000}, {}},
      {"Dropout", "Dropout", {{"ratio", 0.5}}, {256, 4096}, {}},
  };
}

Tensor random_tensor(runtime::Device& device, const Shape& shape, uint32_t purpose) {
  Tensor tensor(device, DType::kFloat32, shape);
  ops::fill_uniform({1, purpose, 0, 0}, 0,
                    {tensor.view().f32(), static_cast<size_t>(shape.elements())});
  return tensor;
}

// One operator with all that a call needs.
class Bench {
 public:
  explicit Bench(const Scene& scene) {
    inputs_.push_back(random_tensor(*device_, scene.input, 1));
    for (const auto& shape : scene.parameters) inputs_.push_back(random_tensor(*device_, shape, 2));
    ops::NodeFacts facts{scene.attributes, {}, 1};
    for (const auto& input : inputs_) {
      const bool first = facts.inputs.empty();
      facts.inputs.push_back({{DType::kFloat32, input.shape()},
                              first ? ops::Role::kActivation : ops::Role::kParameter,
                              true});
      gradients_.push_back(random_tensor(*device_, input.shape(), 3));
      input_views_.push_back(input.view());
    }
    op_ = ops::bind_operator(ops::find_operator(scene.op), facts);
    const ops::Box whole = ops::Box::whole(static_cast<int>(op_->space().axes.size()));
    const int64_t samples = scene.input[0];
    kernel_ = ops::make_kernel({*op_, whole, samples, *bench_});
    output_ = random_tensor(*device_, op_->outputs()[0].shape, 4);
    upstream_ = random_tensor(*device_, op_->outputs()[0].shape, 5);
    output_view_ = output_.view();
    upstream_view_ = upstream_.view();
    const ops::LocalSpecs local = ops::local_specs(*op_, whole, samples, samples);
    reserve_ = device_->allocate(op_->reserve_bytes(local));
    workspace_ = device_->allocate(ops::workspace_bytes(*op_, device_->kind(), local, 1));
    cost_ = op_->cost(local);
    call_.inputs = input_views_;
    call_.outputs = {&output_view_, 1};
    call_.output_gradients = {&upstream_view_, 1};
    call_.reserve = {reserve_.data(), reserve_.bytes()};
    call_.workspace = {workspace_.data(), workspace_.bytes()};
    call_.samples = samples;
    kernel_->forward(call_);
  }

  void run(Phase phase) {
    if (phase == Phase::kForward) return kernel_->forward(call_);
    std::vector<ops::GradientTarget> targets;
    if (phase == Phase::kInputGradient) {
      targets.push_back({0, gradients_[0].view(), false});
      return kernel_->input_gradient(call_, targets);
    }
    for (size_t i = 1; i < inputs_.size(); ++i)
      targets.push_back({static_cast<int>(i), gradients_[i].view(), true});
    kernel_->weight_gradient(call_, targets);
  }
  const ops::Cost& cost() const { return cost_; }

 private:
  std::unique_ptr<runtime::Device> device_ = runtime::make_cpu_device();
  std::unique_ptr<runtime::Stream> stream_ = device_->make_stream();
  std::unique_ptr<ops::Workbench> bench_ = ops::make_workbench(*device_, *stream_);
  std::shared_ptr<const ops::BoundOperator> op_;
  std::unique_ptr<ops::Kernel> kernel_;
  std::vector<Tensor> inputs_, gradients_;
  std::vector<ops::TensorView> input_views_;
  Tensor output_, upstream_;
  ops::TensorView output_view_, upstream_view_;
  runtime::Buffer reserve_, workspace_;
  ops::Call call_;
  ops::Cost cost_;
};

void measure(benchmark::State& state, const Scene& scene, Phase phase) {
  Bench bench(scene);
  for (auto _ : state) bench.run(phase);
  const ops::Cost& cost = bench.cost();
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

void measure_step(benchmark::State& state, const std::vector<Link>& links, const Shape& input) {
  const auto device = runtime::make_cpu_device();
  Chain chain(*device, links, input, 10);
  for (auto _ : state) benchmark::DoNotOptimize(chain.step());
}

void add_benchmarks() {
  for (const auto& scene : scenes()) {
    const auto add = [&](const char* suffix, Phase phase) {
      benchmark::RegisterBenchmark((scene.name + suffix).c_str(), measure, scene, phase)
          ->Unit(benchmark::kMillisecond);
    };
    add("/F", Phase::kForward);
    add("/I", Phase::kInputGradient);
    if (!scene.parameters.empty()) add("/W", Phase::kWeightGradient);
  }
  benchmark::RegisterBenchmark("step/lenet5", measure_step, lenet5_links(), Shape{256, 1, 28, 28})
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("step/mlp", measure_step, mlp_links({784, 4096, 4096, 10}),
                               Shape{256, 784})
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace kerf::bench

int main(int argc, char** argv) {
  kerf::bench::add_benchmarks();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
