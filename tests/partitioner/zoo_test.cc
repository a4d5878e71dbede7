// The zoo: the two networks are those of the literature, and wrong names and sizes are refused.
#include "partitioner/zoo.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

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

TEST(Zoo, TheDecoderBeginsWithWhatTheEncoderEndsWith) {
  const Model model = make_zoo_model("seq2seq", {{5, 7, 11, 4, 6, 2}});
  const auto lstm = [](int64_t from, int64_t h) { return 4 * h * (from + h) + 8 * h; };
  EXPECT_EQ(count_parameters(model), 2 * (11 * 4 + lstm(4, 6) + lstm(6, 6)) + 11 * 6 + 11);
  for (const char* layer : {"l0", "l1"}) {
    const Node& encoder = model.node(model.find_node(format("encoder.{}", layer)));
    const Node& decoder = model.node(model.find_node(format("decoder.{}", layer)));
    ASSERT_EQ(decoder.inputs.size(), 7);
    EXPECT_EQ(decoder.inputs[5], encoder.outputs[1]) << layer;
    EXPECT_EQ(decoder.inputs[6], encoder.outputs[2]) << layer;
    EXPECT_TRUE(model.needs_gradient(encoder.outputs[2]));
  }
  EXPECT_EQ(model.value(model.find_value("source")).spec.shape, (ops::Shape{ops::kBatch, 5}));
  EXPECT_EQ(model.value(model.find_value("by_token.output")).spec.shape,
            (ops::Shape{ops::kBatch, 11, 7}));
  EXPECT_EQ(model.value(model.find_value("label")).spec.shape, (ops::Shape{ops::kBatch, 7}));
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

struct Published {
  const char* name;
  int64_t parameters;
};

// As torchvision 0.29 counts them, without auxiliary classifiers; of bvlc-alexnet and inception-v1
// the Caffe model zoo's.
TEST(Zoo, NetworksHaveAsManyParametersAsPublished) {
  constexpr Published kPublished[] = {
      {"alexnet", 61'100'840},    {"bvlc-alexnet", 60'965'224}, {"vgg16", 138'357'544},
      {"vgg19", 143'667'240},     {"inception-v1", 6'998'552},  {"inception-v3", 23'834'568},
      {"resnet18", 11'689'512},   {"resnet50", 25'557'032},     {"resnet101", 44'549'160},
      {"densenet121", 7'978'856}, {"squeezenet", 1'235'496},    {"shufflenet", 2'278'604},
      {"vit", 86'567'656}};
  for (const auto& [name, parameters] : kPublished)
    EXPECT_EQ(count_parameters(make_zoo_model(name)), parameters) << name;
}

// As torchvision 0.29 initialises them; what is not listed of a network is of the same kinds.
TEST(Zoo, NetworksBeginAsPublished) {
  using ops::Initializer;
  using enum ops::Initializer::Kind;
  const auto uniform = [](double fan) { return Initializer{kUniform, 1 / std::sqrt(fan)}; };
  const auto normal = [](double deviation) { return Initializer{kNormal, deviation}; };
  const auto he = [&](double fan) { return normal(std::sqrt(2 / fan)); };
  const Initializer zero{kZero};
  const std::map<std::string, std::map<std::string, Initializer>> published{
      {"alexnet", {{"features.0.weight", uniform(3 * 121)}, {"classifier.6.bias", uniform(4096)}}},
      {"vgg16",
       {{"features.0.weight", he(64 * 9)},
        {"features.0.bias", zero},
        {"classifier.0.weight", normal(0.01)},
        {"classifier.6.bias", zero}}},
      {"resnet50",
       {{"conv1.weight", he(64 * 49)},
        {"layer1.0.bn1.weight", Initializer{kOne}},
        {"fc.weight", uniform(2048)},
        {"fc.bias", uniform(2048)}}},
      {"densenet121",
       {{"features.conv0.weight", he(3 * 49)},
        {"classifier.weight", uniform(1024)},
        {"classifier.bias", zero}}},
      {"inception-v3",
       {{"Conv2d_1a_3x3.conv.weight", normal(0.1)},
        {"fc.weight", normal(0.1)},
        {"fc.bias", uniform(2048)}}},
      {"squeezenet",
       {{"features.0.weight", Initializer{kUniform, std::sqrt(6.0 / 27)}},
        {"features.0.bias", zero},
        {"classifier.1.weight", normal(0.01)}}},
      {"shufflenet", {{"conv1.0.weight", uniform(27)}, {"fc.bias", uniform(1024)}}},
      {"vit",
       {{"conv_proj.weight", normal(std::sqrt(1.0 / (3 * 256)))},
        {"class_token", zero},
        {"encoder.pos_embedding", normal(0.02)},
        {"heads.head.weight", zero}}}};
  for (const auto& [name, starts] : published) {
    const Model model = make_zoo_model(name);
    for (const auto& [value, wanted] : starts) {
      ASSERT_GE(model.find_value(value), 0) << name << " " << value;
      const Initializer& got = model.value(model.find_value(value)).initializer;
      EXPECT_EQ(got.kind, wanted.kind) << name << " " << value;
      EXPECT_NEAR(got.scale, wanted.scale, 1e-9) << name << " " << value;
    }
  }
}

TEST(Zoo, NetworksOfImagesCanBeNarrowAndSmall) {
  for (const ZooModel& row : zoo()) {
    if (!row.images) continue;
    const std::string name(row.name);
    const int64_t image = name == "inception-v3" || name == "bvlc-alexnet" ? 96 : 64;
    const Model model = make_zoo_model(name, {.width = 0.125, .classes = 10, .image = image});
    const Value& label = model.value(model.find_value("label"));
    const Node& loss = model.node(model.loss());
    EXPECT_EQ(label.spec.shape, ops::Shape{ops::kBatch}) << name;
    EXPECT_EQ(model.value(loss.inputs[0]).spec.shape, (ops::Shape{ops::kBatch, 10})) << name;
    EXPECT_LT(count_parameters(model), count_parameters(make_zoo_model(name)) / 20) << name;
  }
}

// By an eighth; what is read and what is answered stay as they are.
TEST(Zoo, NetworksOfOtherThingsCanBeNarrow) {
  const auto lstm = [](int64_t from, int64_t h) { return 4 * h * (from + h) + 8 * h; };
  const auto linear = [](int64_t from, int64_t to) { return from * to + to; };
  const int64_t lenet5 =
      linear(25, 1) + linear(25, 2) + linear(50, 15) + linear(15, 11) + linear(11, 10);
  const Published narrow[] = {
      {"mlp", linear(784, 64) + linear(64, 64) + linear(64, 10)},
      {"lenet5", lenet5},
      {"lenet5-bn", lenet5 + 2 * (1 + 2)},
      {"convnet", linear(9, 4) + linear(4 * 9, 4) + linear(4 * 9, 8) + linear(8 * 9, 8) +
                      linear(8 * 49, 16) + linear(16, 10)},
      {"lstm-lm", 32 * 4 + lstm(4, 8) + 8 * 32},
      {"seq2seq", 2 * (32 * 4 + lstm(4, 8) + lstm(8, 8)) + linear(8, 32)},
      {"gpt", 4 * (12 * 64 * 64 + 13 * 64) + (96 + 128 + 2) * 64 + linear(64, 96)}};
  size_t others = 0;
  for (const ZooModel& row : zoo()) others += row.images ? 0 : 1;
  EXPECT_EQ(std::size(narrow), others);
  for (const auto& [name, parameters] : narrow) {
    const Model model = make_zoo_model(name, {.width = 0.125});
    EXPECT_EQ(count_parameters(model), parameters) << name;
    EXPECT_NO_THROW(model.check()) << name;
  }
}

TEST(Zoo, HeadsOfANarrowTransformerStayWhole) {
  for (const double width : {0.001, 0.125, 0.3, 1.1}) {
    const Model gpt = make_zoo_model("gpt", {.sizes = {1, 24, 3, 5, 7}, .width = width});
    const Node& node = gpt.node(gpt.find_node("h.0.attention"));
    EXPECT_EQ(gpt.value(node.outputs[0]).spec.shape[2] % 3, 0) << width;
    EXPECT_GE(gpt.value(node.outputs[0]).spec.shape[2], 3) << width;
    const Model vit =
        make_zoo_model("vit", {.sizes = {1, 36, 12, 16}, .width = width, .image = 32});
    const Node& encoder = vit.node(vit.find_node("encoder.layers.encoder_layer_0.attention"));
    EXPECT_EQ(vit.value(encoder.outputs[0]).spec.shape[2] % 12, 0) << width;
  }
}

// torchvision's VGG-16 keeps its 138 million parameters whatever the images.
TEST(Zoo, AdaptivePoolingKeepsTheClassifier) {
  EXPECT_EQ(count_parameters(make_zoo_model("vgg16", {.image = 64})), 138'357'544);
  EXPECT_EQ(count_parameters(make_zoo_model("resnet50", {.image = 64})), 25'557'032);
}

TEST(Zoo, TheTransformerHasTheSizesAskedFor) {
  const auto of = [](int64_t layers, int64_t d, int64_t tokens, int64_t vocabulary) {
    const int64_t block = 12 * d * d + 13 * d;  // four products, their biases, two normalisations
    return layers * block + (vocabulary + tokens + 2) * d + d * vocabulary + vocabulary;
  };
  EXPECT_EQ(count_parameters(make_zoo_model("gpt")), of(4, 512, 128, 96));
  EXPECT_EQ(count_parameters(make_zoo_model("gpt", {{2, 24, 3, 5, 7}})), of(2, 24, 5, 7));
  EXPECT_THAT(complaint([] { make_zoo_model("gpt", {{2, 24, 5, 5, 7}}); }), HasSubstr("heads"));
}

TEST(Zoo, OptionsTravelAsAText) {
  const ZooOptions narrow{.width = 0.125, .classes = 10, .image = 64};
  const std::string text = zoo_text("resnet18", narrow);
  EXPECT_EQ(text, "resnet18 width=0.125 classes=10 image=64");
  EXPECT_EQ(make_zoo_model_of(text).fingerprint(),
            make_zoo_model("resnet18", narrow).fingerprint());
  EXPECT_EQ(zoo_text("mlp", {.sizes = {784, 10}}), "mlp 784-10");
  for (const char* bad : {"resnet18 width=0", "resnet18 width=x", "resnet18 classes=0",
                          "resnet18 image=-1", "resnet18 depth=3", "lenet5 classes=5",
                          "resnet18 64-64", "resnet18 width=nan", "resnet18 image=99999999"})
    EXPECT_NE(complaint([&] { make_zoo_model_of(bad); }), "") << bad;
}

TEST(Zoo, RefusesWhatItDoesNotHave) {
  EXPECT_THAT(complaint([] { make_zoo_model("vgg"); }),
              HasSubstr("mlp, lenet5, lenet5-bn, convnet, alexnet"));
  EXPECT_THAT(complaint([] { make_zoo_model("lenet5", {{784, 10}}); }), HasSubstr("--sizes"));
  EXPECT_NE(complaint([] { make_zoo_model("mlp", {{784}}); }), "");
  EXPECT_NE(complaint([] { make_zoo_model("mlp", {{784, 0, 10}}); }), "");
}

TEST(Zoo, RefusesMoreLayersThanFitAMemory) {
  constexpr int64_t kMany = 1'000'000;
  for (const auto& given :
       std::map<std::string, std::vector<int64_t>>{{"gpt", {kMany, 8, 2, 4, 16}},
                                                   {"vit", {kMany, 8, 2, 16}},
                                                   {"seq2seq", {4, 4, 8, 8, 8, kMany}}})
    EXPECT_THAT(complaint([&] { make_zoo_model(given.first, {given.second}); }),
                HasSubstr("1000000 layers"));
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
