// Kernels of GPUs against the CPU's, beyond what the conformance suites ask of any device: on a GPU
// that the host plays, and on a real one where there is one.
#include <gmock/gmock.h>

#include <optional>

#include "tests/ops/on_cuda.h"
#include "tests/support/errors.h"

namespace kerf::ops {
namespace {

using testing::HasSubstr;
using tests::error_of;

std::vector<HostTensor> everything(const std::string& device, const OperatorCase& scene) {
  const auto made = runtime::make_device(device);
  const auto op = bind(scene);
  const auto values = draw_inputs(scene, scene.samples, 21);
  OperatorRunner kernel(op, *made, scene.samples);
  const Moment now{.samples = scene.samples, .normaliser = 4};
  auto results = kernel.forward(values, now);
  for (auto& gradient :
       kernel.gradients(values, now, draw_upstream(*op, scene.samples, 22), ask(*op, values)))
    results.push_back(std::move(gradient));
  return results;
}

class CudaKernels : public OnCuda, public testing::WithParamInterface<OperatorCase> {};

TEST_P(CudaKernels, GiveWhatTheCpuGives) {
  const auto device = runtime::make_device("cuda:0");
  if (!has_kernel_for(*bind(GetParam()), *device)) GTEST_SKIP() << "no kernel";
  const auto here = everything("cpu", GetParam());
  const auto there = everything("cuda:0", GetParam());
  ASSERT_EQ(here.size(), there.size());
  for (size_t i = 0; i < here.size(); ++i)
    EXPECT_LT(difference(here[i], there[i]), 1e-5) << "result " << i;
}

std::string name_of_case(const testing::TestParamInfo<OperatorCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Operators, CudaKernels, testing::ValuesIn(operator_cases()), name_of_case);

TEST_F(OnCuda, HasKernelsForTraining) {
  for (const char* name : {"Add",
                           "AveragePool",
                           "BatchNormalization",
                           "Concat",
                           "Conv",
                           "Div",
                           "Dropout",
                           "Flatten",
                           "Gather",
                           "Gemm",
                           "LayerNormalization",
                           "MatMul",
                           "MaxPool",
                           "Mul",
                           "PRelu",
                           "Pow",
                           "Relu",
                           "Reshape",
                           "Sigmoid",
                           "Softmax",
                           "SoftmaxCrossEntropyLoss",
                           "Split",
                           "Sub",
                           "Tanh",
                           "Transpose"})
    EXPECT_TRUE(has_kernel(name, runtime::DeviceKind::kCuda)) << name;
}

TEST_F(OnCuda, DropsWhatTheCpuDrops) {
  const OperatorCase scene{.name = "Dropout",
                           .op = "Dropout",
                           .attributes = {{"ratio", 0.3}},
                           .inputs = {activation({kBatch, 4096})}};
  EXPECT_EQ(everything("cpu", scene)[0].floats, everything("cuda:0", scene)[0].floats);
}

// ---- what is wrong in the data

struct WrongData {
  std::string name;
  OperatorCase scene;
  size_t input;    // of the case, in which ...
  size_t element;  // ... this one is wrong
  int64_t value;
};

std::vector<WrongData> wrong_data() {
  return {{"label",
           {.name = {},
            .op = "SoftmaxCrossEntropyLoss",
            .inputs = {activation({kBatch, 6, 5}), classes({kBatch, 5}, 6)}},
           1,
           7,
           6},
          {"negative_label",
           {.name = {},
            .op = "SoftmaxCrossEntropyLoss",
            .inputs = {activation({kBatch, 10}), classes({kBatch}, 10)}},
           1,
           2,
           -1},
          {"picked_label",
           {.name = {},
            .op = "PickLabel",
            .inputs = {activation({kBatch, 7, 2}), classes({kBatch, 2}, 7)}},
           1,
           3,
           7},
          {"index",
           {.name = {}, .op = "Gather", .inputs = {parameter({9, 4}), classes({kBatch, 3}, 9)}},
           1,
           4,
           -10}};
}

TEST_F(OnCuda, RefusesWrongDataWithTheWordsOfTheCpu) {
  for (const WrongData& wrong : wrong_data()) {
    auto values = draw_inputs(wrong.scene, 3, 6);
    values[wrong.input].integers[wrong.element] = wrong.value;
    std::optional<Error> errors[2];
    for (CudaBench* bench : both())
      errors[bench == gpu_.get() ? 1 : 0] = error_of([&] {
        OperatorRunner kernel(bind(wrong.scene), *bench->device, 3);
        (void)kernel.forward(values, {.samples = 3});
      });
    ASSERT_TRUE(errors[0] && errors[1]) << wrong.name;
    EXPECT_EQ(errors[1]->code(), ErrorCode::kUsage) << wrong.name;
    EXPECT_EQ(errors[1]->message(), errors[0]->message()) << wrong.name;
  }
}

TEST_F(OnCuda, RefusesARatioThatIsNone) {
  OperatorCase scene{
      .name = {}, .op = "Dropout", .inputs = {activation({kBatch, 3}), {{DType::kFloat32, {1}}}}};
  scene.inputs[1].role = Role::kConstant;
  auto values = draw_inputs(scene, 2, 1);
  values[1].floats[0] = 1.5F;
  const auto error = error_of([&] {
    OperatorRunner kernel(bind(scene), *gpu_->device, 2);
    (void)kernel.forward(values, {.samples = 2});
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("1.5"));
}

}  // namespace
}  // namespace kerf::ops
