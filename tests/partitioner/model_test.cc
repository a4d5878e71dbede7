// The model: names are unique, shapes follow, gradients flow where parameters are, and two models
// that compute different things have different fingerprints.
#include "partitioner/model.h"

#include <gmock/gmock.h>

#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::branch_model;
using testing::complaint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::sample_models;
using testing::skip_model;

const ops::ValueSpec kRows{ops::DType::kFloat32, {ops::kBatch, 4}};

TEST(Model, NodesGetTheirShapesWhenTheyAreAdded) {
  Model model("m");
  const ValueId x = model.add_input("x", kRows);
  const NodeId relu = model.add_node("r", "Relu", {}, {x});
  const ValueId output = model.node(relu).outputs.front();
  EXPECT_EQ(model.value(output).name, "r.output");
  EXPECT_EQ(model.value(output).spec, kRows);
  EXPECT_EQ(model.value(output).producer, relu);
  EXPECT_EQ(model.find_value("r.output"), output);
  EXPECT_EQ(model.find_node("nobody"), -1);
}

TEST(Model, ErrorsNameModelNodeAndReason) {
  Model model("lenet5");
  const ValueId x = model.add_input("image", kRows);
  const ValueId w = model.add_parameter("w", {ops::DType::kFloat32, {6, 1, 5, 5}}, {});
  EXPECT_THAT(complaint([&] {
                model.add_node("conv3", "Conv", {}, {x, w});
              }),
              HasSubstr("lenet5: node conv3: Conv"));
  EXPECT_THAT(complaint([&] { model.add_node("odd", "Frobnicate", {}, {x}); }),
              HasSubstr("lenet5: node odd: "));
  EXPECT_THAT(complaint([&] {
                model.add_node("odd", "Relu", {{"slope", 0.5}}, {x});
              }),
              HasSubstr("slope"));
  EXPECT_THAT(complaint([&] {
                model.add_node("odd", "Relu", {}, {x, x});
              }),
              HasSubstr("lenet5: node odd: "));
  EXPECT_THAT(complaint([&] { model.add_node("odd", "Relu", {}, {99}); }),
              HasSubstr("lenet5: node odd: there is no value number 99"));
}

TEST(Model, WhatIsComputedHasARowPerSample) {
  Model model("m");
  const ValueId w = model.add_parameter("w", {ops::DType::kFloat32, {4, 4}}, {});
  EXPECT_THAT(complaint([&] { model.add_node("odd", "Relu", {}, {w}); }),
              HasSubstr("m: node odd: its output [4, 4] would have no row per sample"));
  EXPECT_THAT(complaint([&] {
                model.add_input("x", {ops::DType::kFloat32, {ops::kBatch, 0}});
              }),
              HasSubstr("at least 1"));
}

TEST(Model, ARefusedNodeLeavesNothingBehind) {
  Model model("m");
  const ValueId x = model.add_input("x", kRows);
  const std::string before = model.fingerprint();
  EXPECT_NE(complaint([&] { model.add_node("odd", "Relu", {}, {x, x}); }), "");
  EXPECT_EQ(model.fingerprint(), before);
  EXPECT_EQ(model.find_node("odd"), -1);
  model.add_node("odd", "Relu", {}, {x});
}

TEST(Model, NamesAreUnique) {
  Model model("m");
  const ValueId x = model.add_input("x", kRows);
  model.add_node("r", "Relu", {}, {x});
  EXPECT_THAT(complaint([&] { model.add_input("x", kRows); }), HasSubstr("m: value x"));
  EXPECT_THAT(complaint([&] { model.add_node("r", "Relu", {}, {x}); }), HasSubstr("m: node r"));
  EXPECT_NE(complaint([&] { model.add_node("", "Relu", {}, {x}); }), "");
}

TEST(Model, InputsAreBatchedAndParametersAreNot) {
  Model model("m");
  EXPECT_THAT(complaint([&] {
                model.add_input("x", {ops::DType::kFloat32, {3, 4}});
              }),
              HasSubstr("[3, 4]"));
  // Several rows a sample, which no data set has.
  EXPECT_THAT(complaint([&] {
                model.add_input("x", {ops::DType::kFloat32, {3 * ops::kBatch, 4}});
              }),
              HasSubstr("a row a sample"));
  EXPECT_THAT(complaint([&] { model.add_parameter("w", kRows, {}); }), HasSubstr("parameter w"));
  EXPECT_NE(complaint([&] { model.add_parameter("w", {ops::DType::kFloat32, {0}}, {}); }), "");
}

TEST(Model, UsesAreInModelOrderAndEdgesMirrorThem) {
  const Model model = skip_model();
  const ValueId shared = model.find_value("a_relu.output");
  EXPECT_THAT(model.uses(shared),
              ElementsAre(Use{model.find_node("b"), 0}, Use{model.find_node("sum"), 0}));
  EXPECT_EQ(boost::out_degree(static_cast<size_t>(model.find_node("a_relu")), model.graph()), 2u);
  const Model::FrozenGraph frozen = model.freeze();
  EXPECT_EQ(boost::num_vertices(frozen), boost::num_vertices(model.graph()));
  EXPECT_EQ(boost::num_edges(frozen), boost::num_edges(model.graph()));
  EXPECT_EQ(boost::in_degree(static_cast<size_t>(model.find_node("sum")), frozen), 2u);
}

TEST(Model, GradientsFlowDownstreamOfParametersOnly) {
  Builder b("m");
  const ValueId x = b.input("x", {ops::kBatch, 4});
  const ValueId before = b.relu(x);
  const ValueId after = b.gemm(before, 3);
  b.loss(after);
  const Model model = b.build();
  EXPECT_FALSE(model.needs_gradient(x));
  EXPECT_FALSE(model.needs_gradient(before));
  EXPECT_FALSE(model.needs_gradient(model.find_value("label")));
  EXPECT_TRUE(model.needs_gradient(after));
  for (const ValueId parameter : model.parameters()) EXPECT_TRUE(model.needs_gradient(parameter));
}

TEST(Model, FingerprintsTellWhatIsComputed) {
  std::vector<std::string> all;
  for (const Model& model : sample_models()) all.push_back(model.fingerprint());
  all.push_back(make_zoo_model("mlp", {{20, 16, 12, 11}}).fingerprint());
  Builder other("skip");  // the same shapes, another operator
  const ValueId x = other.input("x", {ops::kBatch, 12});
  const ValueId h = other.relu(other.gemm(x, 16, "a"), "a_relu");
  other.loss(
      other.gemm(other.add(h, other.softmax(other.gemm(h, 16, "b"), "b_relu"), "sum"), 10, "c"));
  all.push_back(other.build().fingerprint());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].size(), 16u);
    EXPECT_EQ(all[i].find_first_not_of("0123456789abcdef"), std::string::npos);
    for (size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]);
  }
  EXPECT_EQ(skip_model().fingerprint(), skip_model().fingerprint());
}

TEST(Model, CopiesAreIndependent) {
  const Model model = branch_model();
  Model copy = model;
  copy.add_node("extra", "Relu", {}, {0});
  EXPECT_EQ(model.find_node("extra"), -1);
  EXPECT_NE(model.fingerprint(), copy.fingerprint());
}

TEST(Model, ANodeOfWhichAnyOutputIsReadHasAPartInTheLoss) {
  Model model("m");
  const auto parameter = [&](const char* name, const ops::Shape& shape) {
    return model.add_parameter(name, {ops::DType::kFloat32, shape}, {});
  };
  const ValueId x = model.add_input("x", {ops::DType::kFloat32, {ops::kBatch, 3, 2}});
  const NodeId rnn =
      model.add_node("rnn", "RNN", {{"hidden_size", int64_t{4}}, {"layout", int64_t{1}}},
                     {x, parameter("w", {1, 4, 2}), parameter("r", {1, 4, 4})}, 2);
  const NodeId last = model.add_node("last", "Squeeze", {{"axes", std::vector<int64_t>{1}}},
                                     {model.node(rnn).outputs[1]});
  const ValueId labels = model.add_label("labels", {ops::DType::kInt64, {ops::kBatch}});
  model.add_node("loss", "SoftmaxCrossEntropyLoss", {}, {model.node(last).outputs[0], labels});
  EXPECT_EQ(complaint([&] { model.check(); }), "");
}

TEST(Model, ChecksThatAllHasAPartInTheLoss) {
  EXPECT_THAT(complaint([] { Model("void").check(); }), HasSubstr("void"));
  Builder unread("m");
  const ValueId x = unread.input("x", {ops::kBatch, 4});
  unread.relu(x, "lonely");
  unread.loss(unread.gemm(x, 3));
  EXPECT_THAT(complaint([&] { unread.build(); }), HasSubstr("m: node lonely"));
  Builder spare("m");
  spare.input("spare", {ops::kBatch, 4});
  spare.loss(spare.gemm(spare.input("x", {ops::kBatch, 4}), 3));
  EXPECT_THAT(complaint([&] { spare.build(); }), HasSubstr("m: value spare"));
}

}  // namespace
}  // namespace kerf::partitioner
