// Which convolutions cuDNN does on a GPU, by which of its engines, on a GPU that the host plays.
#include <gtest/gtest.h>

#include "ops/cuda/dnn_conv.h"
#include "tests/conformance/operator_fixture.h"
#include "tests/support/cuda_on_host/dnn_engine.h"

namespace kerf::ops {
namespace {

using Ints = std::vector<int64_t>;
using Runs = std::map<std::string, int64_t>;

constexpr int64_t kSamples = 2;

OperatorCase conv(const Shape& x, const Shape& w, Attributes attributes = {}) {
  return {.name = {},
          .op = "Conv",
          .attributes = std::move(attributes),
          .inputs = {activation(x), parameter(w)},
          .samples = kSamples};
}

class CudaConv : public testing::Test {
 protected:
  // Forward, I and W of a case, channels first and last.
  static Runs engines_of(const OperatorCase& scene, const Box& iterations) {
    const Runs before = tests::dnn_runs();
    const auto device = runtime::make_device("cuda:0");
    for (const OperatorCase& each : {scene, *channels_last(scene)}) {
      const auto op = bind(each);
      auto values = draw_inputs(each, kSamples, 1);
      auto upstream = draw_upstream(*op, kSamples, 2);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = cut(values[i], input_box(*op, static_cast<int>(i), iterations, kSamples));
      upstream[0] = cut(upstream[0], output_box(*op, 0, iterations, kSamples));
      OperatorRunner kernel(op, *device, iterations, kSamples);
      (void)kernel.gradients(values, {.samples = kSamples}, upstream, ask(*op, values));
    }
    Runs during;
    for (const auto& [name, count] : tests::dnn_runs()) {
      const auto at = before.find(name);
      const int64_t more = count - (at == before.end() ? 0 : at->second);
      if (more > 0) during[name] = more;
    }
    return during;
  }
  static Runs engines_of(const OperatorCase& scene) {
    return engines_of(scene, Box::whole(static_cast<int>(bind(scene)->space().axes.size())));
  }
  static constexpr int64_t kAll = 6;  // three passes, two formats
};

TEST_F(CudaConv, IsDoneByTheFirstEngineThatIsStrictAndTakesNoMoreThanIsGranted) {
  EXPECT_EQ(engines_of(conv({kBatch, 8, 6, 5}, {4, 8, 3, 3})), (Runs{{"implicit", kAll}}));
  EXPECT_EQ(engines_of(conv({kBatch, 1, 6, 5}, {4, 1, 3, 1})), (Runs{{"implicit", kAll}}));
}

TEST_F(CudaConv, InGroupsOfFewTermsIsDoneDirectly) {
  const Attributes groups{{"group", int64_t{2}}};
  EXPECT_EQ(engines_of(conv({kBatch, 42, 6, 5}, {4, 21, 3, 1}, groups)), Runs{});  // 63
  EXPECT_EQ(engines_of(conv({kBatch, 32, 6, 5}, {4, 16, 2, 2}, groups)),
            (Runs{{"implicit", kAll}}));
  EXPECT_EQ(engines_of(conv({kBatch, 16, 6, 5}, {16, 1, 3, 3}, {{"group", int64_t{16}}})), Runs{});
}

TEST_F(CudaConv, ThatTheBetterEnginesDoNotKnowIsDoneByOneOfTheFallback) {
  for (const Ints& dilations : {Ints{2, 1}, Ints{1, 2}})
    EXPECT_EQ(engines_of(conv({kBatch, 8, 6, 5}, {4, 8, 3, 3}, {{"dilations", dilations}})),
              (Runs{{"plain", kAll}}));
}

TEST_F(CudaConv, ThatNoEngineKnowsIsDoneDirectly) {
  const Attributes uneven{{"pads", Ints{1, 0, 0, 0}}};
  EXPECT_EQ(engines_of(conv({kBatch, 8, 6, 5}, {4, 8, 3, 3}, uneven)), (Runs{{"plain", kAll}}));
  Attributes both = uneven;
  both["dilations"] = Ints{1, 2};
  EXPECT_EQ(engines_of(conv({kBatch, 8, 6, 5}, {4, 8, 3, 3}, both)), Runs{});
}

// Eight rows in steps of two: the last is no window's, nor is one of padding behind it.
TEST_F(CudaConv, WithPadsThatNeedNotDifferIsDoneByCudnn) {
  EXPECT_EQ(engines_of(conv({kBatch, 8, 8, 5}, {4, 8, 3, 3},
                            {{"pads", Ints{1, 0, 0, 0}}, {"strides", Ints{2, 1}}})),
            (Runs{{"implicit", kAll}}));
}

// Iterations: samples, groups, outputs, inputs, rows, columns. 18 terms of 72 are few.
TEST_F(CudaConv, OfAPartIsDoneByWhomTheWholeIs) {
  const OperatorCase whole =
      conv({kBatch, 16, 6, 5}, {4, 8, 3, 3}, Attributes{{"group", int64_t{2}}});
  Box part = Box::whole(6);
  part.axes[3] = IndexSet::of({1, 5});
  EXPECT_EQ(engines_of(whole, part), (Runs{{"implicit", kAll}}));
  Box rows = Box::whole(6);
  rows.axes[4] = IndexSet::range(1, 3);
  EXPECT_EQ(engines_of(whole, rows), (Runs{{"implicit", kAll}}));
}

TEST_F(CudaConv, WantsAWorkspaceThatIsBounded) {
  const auto wanted = [](const OperatorCase& scene, int64_t samples) {
    const auto op = bind(scene);
    const Box all = Box::whole(static_cast<int>(op->space().axes.size()));
    return workspace_bytes(*op, runtime::DeviceKind::kCuda, local_specs(*op, all, samples, samples),
                           1);
  };
  // X and Y, W and eight gradients of it, and 256 bytes to begin where CUDA's memory would; whole
  // pieces of 64.
  EXPECT_EQ(wanted(conv({kBatch, 8, 15, 15}, {4, 8, 3, 3}), 2),
            14'400u + 5'408u + 9 * 1'152u + 256u + 32u);
  EXPECT_EQ(wanted(conv({kBatch, 64, 56, 56}, {64, 64, 3, 3}), 256), (128u << 20U) + 256);
  EXPECT_EQ(wanted(conv({kBatch, 14, 15, 15}, {4, 7, 3, 3}, {{"group", int64_t{2}}}), 2), 0u);
}

// A plan grants workspaces at multiples of 64 bytes; the played cuDNN refuses them.
TEST_F(CudaConv, LaysItsWorkspaceAsCudaWould) {
  const auto device = runtime::make_device("cuda:0");
  const auto stream = device->make_stream();
  cuda::CudaWorkbench bench(*device, *stream);
  cuda::DnnConv convolution(bench);
  const cuda::DnnConvProblem problem{.samples = 1,
                                     .groups = 1,
                                     .channels = 2,
                                     .filters = 1,
                                     .window = {.input = {3, 3},
                                                .output = {2, 2},
                                                .kernel = {2, 2},
                                                .strides = {1, 1},
                                                .dilations = {1, 1}}};
  ASSERT_TRUE(convolution.has(problem));
  const auto granted = piece_bytes<std::byte>(cuda::DnnConv::workspace_bytes(problem));
  const runtime::Buffer tensors = device->allocate(3 * 256);
  const runtime::Buffer workspace = device->allocate(granted + 192);
  const auto at = [&](size_t i) { return reinterpret_cast<float*>(tensors.data() + i * 256); };
  for (const size_t offset : {0U, 64U, 128U, 192U})
    convolution.run(problem, {at(0), at(1), at(2)},
                    Workspace({workspace.data() + offset, granted}));
  stream->synchronize();
}

}  // namespace
}  // namespace kerf::ops
