// What the real cuDNN answers of convolutions on GPUs that are not there: it plans for a GPU by its
// description too. That graphs are built as it wants them, and that engines are found that compute
// as Kerf promises, needs no GPU.
#include <gmock/gmock.h>

#include <string_view>

#include "ops/cuda/dnn_conv_plan.h"
#include "ops/operators/conv.h"
#include "runtime/json.h"
#include "tests/conformance/operator_case.h"

namespace kerf::ops::cuda {
namespace {

using testing::Each;

using Ints = std::vector<int64_t>;

struct Gpu {
  const char* name;
  int capability;  // 900 is 9.0
  int processors;
  int shared_memory;  // of a block at most
  int threads;        // of a processor
};

Json described(const Gpu& gpu) {
  return {{"deviceName", gpu.name},
          {"deviceVer", gpu.capability},
          {"cudaDeviceId", 0},
          {"driverVer", 13000},
          {"totalGlobalMem", int64_t{80} << 30},
          {"multiProcessorCount", gpu.processors},
          {"maxGridSize", {2147483647, 65535, 65535}},
          {"maxBlockSize", {1024, 1024, 64}},
          {"warpSize", 32},
          {"regsPerBlock", 65536},
          {"maxRegistersPerSM", 65536},
          {"maxSharedMemoryPerBlock", 49152},
          {"maxSharedMemoryPerBlockOptin", gpu.shared_memory},
          {"reservedSharedMemoryPerBlock", 1024},
          {"maxCtasPerSM", 32},
          {"maxThreadsPerBlock", 1024},
          {"maxThreadsPerSM", gpu.threads},
          {"pciDeviceId", 0},
          {"isTccDriver", 0},
          {"supportCoopLaunch", 1},
          {"smClockRateKHz", 1980000},
          {"memClockRateKHz", 2619000},
          {"l2CacheSize", 52428800}};
}

class DescribedTarget final : public DnnTarget {
 public:
  DescribedTarget(const Gpu& gpu, const Queue& queue)
      : properties_(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, queue) {
    const std::string text = described(gpu).dump();
    check_cudnn(
        cudnnBackendSetAttribute(properties_.native(), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, static_cast<int64_t>(text.size()), text.data()),
        "cudnnBackendSetAttribute", queue);
  }
  // What cuDNN has against the description, which it promises to nobody.
  std::string refusal() const {
    if (properties_.try_finalize() == CUDNN_STATUS_SUCCESS) return {};
    std::array<char, 256> words{};
    cudnnGetLastErrorString(words.data(), words.size());
    return words.data();
  }
  void give_graph(DnnDescriptor&) const override {}
  void give_heuristic(DnnDescriptor& heuristic) const override {
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties_);
  }
  void give_plan(DnnDescriptor& plan) const override {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties_);
  }

 private:
  DnnDescriptor properties_;
};

OperatorCase conv(const std::string& name, const Shape& x, const Shape& w, Attributes attributes,
                  int64_t samples) {
  return {.name = name,
          .op = "Conv",
          .attributes = std::move(attributes),
          .inputs = {activation(x), parameter(w)},
          .samples = samples};
}

// Those of the conformance suites, and some of models.
std::vector<OperatorCase> convolutions() {
  std::vector<OperatorCase> cases;
  for (const OperatorCase& each : window_cases())
    if (each.op == "Conv") cases.push_back(each);
  const Attributes same{{"pads", Ints{1, 1, 1, 1}}};
  cases.push_back(conv("lenet5", {kBatch, 6, 14, 14}, {16, 6, 5, 5}, {}, 32));
  cases.push_back(conv("resnet", {kBatch, 64, 56, 56}, {64, 64, 3, 3}, same, 32));
  cases.push_back(conv("resnet_late", {kBatch, 512, 7, 7}, {512, 512, 3, 3}, same, 32));
  cases.push_back(conv("many_samples", {kBatch, 64, 56, 56}, {64, 64, 3, 3}, same, 256));
  cases.push_back(conv("half_of_the_rows", {kBatch, 64, 29, 56}, {64, 64, 3, 3},
                       {{"pads", Ints{1, 1, 0, 1}}}, 32));
  return cases;
}

class DnnPlans : public testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    if (const std::string why = target_.refusal(); !why.empty())
      GTEST_SKIP() << "this cuDNN describes GPUs otherwise: " << why;
  }
  void expect_plans(const OperatorCase& scene) {
    const auto bound = bind(scene);
    const auto& conv = static_cast<const Conv&>(*bound);
    const Shape w = conv.inputs()[1].spec.shape;
    DnnConvProblem problem{.format = conv.images(),
                           .samples = scene.samples,
                           .groups = conv.groups(),
                           .channels = w[1],
                           .filters = w[0] / conv.groups(),
                           .window = conv.window()};
    for (const auto kind :
         {DnnConvKind::kForward, DnnConvKind::kInputGradient, DnnConvKind::kWeightGradient})
      for (const bool accumulate : {false, true}) {
        if (accumulate && kind != DnnConvKind::kWeightGradient) continue;
        problem.kind = kind;
        problem.accumulate = accumulate;
        const auto plan = make_plan(problem, target_, queue_);
        ASSERT_TRUE(plan) << scene.name << ", kind " << static_cast<int>(kind);
        EXPECT_LE(plan->workspace, most_workspace(problem)) << scene.name;
        const auto engine = plan->configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE,
                                                            CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
        EXPECT_THAT(engine.at(0).get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                                  CUDNN_NUMERICAL_NOTE_TYPE_COUNT),
                    Each(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP))
            << scene.name;
        ++plans_;
      }
  }

  std::unique_ptr<runtime::Device> cpu_ = runtime::make_cpu_device();
  std::unique_ptr<runtime::Stream> stream_ = cpu_->make_stream();
  KernelMemory memory_{"no GPU"};
  Queue queue_{*stream_, "no GPU", memory_};
  DescribedTarget target_{GetParam(), queue_};
  int plans_ = 0;
};

TEST_P(DnnPlans, AreHadForEveryConvolutionInBothFormats) {
  for (const OperatorCase& each : convolutions()) {
    expect_plans(each);
    expect_plans(*channels_last(each));
  }
  EXPECT_GT(plans_, 100);
}

INSTANTIATE_TEST_SUITE_P(Gpus, DnnPlans,
                         testing::Values(Gpu{"H100", 900, 132, 232448, 2048},
                                         Gpu{"B200", 1000, 148, 232448, 2048},
                                         Gpu{"RTX5090", 1200, 170, 101376, 1536}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace kerf::ops::cuda
