// The zoo: the two networks are those of the literature, and wrong names and sizes are refused.
#include "partitioner/zoo.h"

#include <gmock/gmock.h>

#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::complaint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

int64_t count_parameters(const Model& model) {
  int64_t count = 0;
  for (const ValueId id : model.parameters()) count += model.value(id).spec.shape.elements();
  return count;
}

TEST(Zoo, LeNet5HasItsSixtyOneThousandParameters) {
  const Model model = make_zoo_model("lenet5");
  EXPECT_EQ(count_parameters(model), 61706);  // LeCun et al. 1998, all maps of C3 connected
  const auto shape = [&](const char* node) {
    return model.value(model.node(model.find_node(node)).outputs[0]).spec.shape;
  };
  EXPECT_EQ(shape("conv1"), (ops::Shape{ops::kBatch, 6, 28, 28}));
  EXPECT_EQ(shape("pool1"), (ops::Shape{ops::kBatch, 6, 14, 14}));
  EXPECT_EQ(shape("conv2"), (ops::Shape{ops::kBatch, 16, 10, 10}));
  EXPECT_EQ(shape("flatten"), (ops::Shape{ops::kBatch, 400}));
  EXPECT_EQ(shape("fc3"), (ops::Shape{ops::kBatch, 10}));
}

TEST(Zoo, TheMlpHasTheSizesAskedFor) {
  EXPECT_EQ(count_parameters(make_zoo_model("mlp")), 784 * 512 + 512 + 512 * 512 + 512 + 5130);
  EXPECT_EQ(count_parameters(make_zoo_model("mlp", {{5, 3}})), 18);
  const Model deep = make_zoo_model("mlp", {{784, 32, 32, 32, 10}});
  EXPECT_GE(deep.find_node("fc4"), 0);
  EXPECT_GE(deep.find_node("relu3"), 0);
  EXPECT_EQ(deep.find_node("relu4"), -1);  // the scores have none
  EXPECT_EQ(deep.value(deep.find_value("image")).spec.shape, (ops::Shape{ops::kBatch, 784}));
}

TEST(Zoo, TheLanguageModelScoresEveryToken) {
  const Model model = make_zoo_model("lstm-lm", {{5, 7, 4, 6}});
  EXPECT_EQ(count_parameters(model), 7 * 4 + 4 * 6 * (4 + 6) + 8 * 6 + 6 * 7);
  EXPECT_EQ(model.value(model.find_value("tokens")).spec,
            (ops::ValueSpec{ops::DType::kInt64, {ops::kBatch, 5}}));
  EXPECT_EQ(model.value(model.find_value("by_token.output")).spec.shape,
            (ops::Shape{ops::kBatch, 7, 5}));
  EXPECT_EQ(model.value(model.find_value("label")).spec.shape, (ops::Shape{ops::kBatch, 5}));
}

TEST(Zoo, LeNet5WithBatchNormalisationKeepsStatistics) {
  const Model model = make_zoo_model("lenet5-bn");
  EXPECT_EQ(count_parameters(model), 61706 + 2 * (6 + 16));
  EXPECT_EQ(model.value(model.find_value("bn2.running_var")).role, Role::kState);
}

TEST(Zoo, TheConvolutionNetHasTheBlocksAskedFor) {
  const Model model = make_zoo_model("convnet");
  const auto shape = [](const Model& of, const char* node) {
    return of.value(of.node(of.find_node(node)).outputs[0]).spec.shape;
  };
  EXPECT_EQ(shape(model, "conv1b"), (ops::Shape{ops::kBatch, 32, 28, 28}));
  EXPECT_EQ(shape(model, "conv2b"), (ops::Shape{ops::kBatch, 64, 14, 14}));
  EXPECT_EQ(shape(model, "flatten"), (ops::Shape{ops::kBatch, 64 * 7 * 7}));
  EXPECT_EQ(shape(make_zoo_model("convnet", {{4, 5, 6, 7}}), "pool4"),
            (ops::Shape{ops::kBatch, 7, 1, 1}));
  EXPECT_NE(complaint([] { make_zoo_model("convnet", {{4, 5, 6, 7, 8}}); }), "");
}

TEST(Zoo, EveryModelIsSound) {
  for (const std::string& name : zoo_names()) EXPECT_NO_THROW(make_zoo_model(name).check()) << name;
}

TEST(Zoo, RefusesWhatItDoesNotHave) {
  EXPECT_THAT(complaint([] { make_zoo_model("vgg"); }),
              HasSubstr("mlp, lenet5, lenet5-bn, convnet, lstm-lm"));
  EXPECT_THAT(complaint([] { make_zoo_model("lenet5", {{784, 10}}); }), HasSubstr("--sizes"));
  EXPECT_NE(complaint([] { make_zoo_model("mlp", {{784}}); }), "");
  EXPECT_NE(complaint([] { make_zoo_model("mlp", {{784, 0, 10}}); }), "");
}

TEST(Zoo, SizesAreNumbersAndDashes) {
  EXPECT_THAT(parse_sizes("784-512-10"), ElementsAre(784, 512, 10));
  EXPECT_THAT(parse_sizes("7"), ElementsAre(7));
  for (const char* bad : {"", "-", "784-", "-10", "784--10", "784-x", "784,10", "784-10 ", "0-10",
                          "99999999999999999999-10"})
    EXPECT_THAT(complaint([&] { parse_sizes(bad); }), HasSubstr("--sizes")) << bad;
}

}  // namespace
}  // namespace kerf::partitioner
