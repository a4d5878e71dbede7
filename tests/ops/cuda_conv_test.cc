// Which convolutions cuDNN does on a GPU, by which of its engines, on a GPU that the host plays.
#include <gtest/gtest.h>

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

TEST_F(CudaConv, OfManyTermsIsDoneByTheFirstEngineThatIsStrictAndTakesNoMoreThanIsGranted) {
  EXPECT_EQ(engines_of(conv({kBatch, 8, 6, 5}, {4, 8, 3, 3})), (Runs{{"implicit", kAll}}));
}

TEST_F(CudaConv, OfFewTermsIsDoneDirectly) {
  EXPECT_EQ(engines_of(conv({kBatch, 7, 6, 5}, {4, 7, 3, 3})), Runs{});
  EXPECT_EQ(engines_of(conv({kBatch, 16, 6, 5}, {16, 1, 3, 3}, {{"group", int64_t{16}}})), Runs{});
}

TEST_F(CudaConv, ThatTheBetterEnginesDoNotKnowIsDoneByOneOfTheFallback) {
  EXPECT_EQ(engines_of(conv({kBatch, 8, 6, 5}, {4, 8, 3, 3}, {{"dilations", Ints{2, 1}}})),
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

// Iterations: samples, outputs, inputs, rows, columns.
TEST_F(CudaConv, OfAPartIsDoneByWhomTheWholeIs) {
  Box part = Box::whole(5);
  part.axes[2] = IndexSet::of({1, 5});
  EXPECT_EQ(engines_of(conv({kBatch, 8, 6, 5}, {4, 8, 3, 3}), part), (Runs{{"implicit", kAll}}));
  Box rows = Box::whole(5);
  rows.axes[3] = IndexSet::range(1, 3);
  EXPECT_EQ(engines_of(conv({kBatch, 8, 6, 5}, {4, 8, 3, 3}), rows), (Runs{{"implicit", kAll}}));
}

}  // namespace
}  // namespace kerf::ops
