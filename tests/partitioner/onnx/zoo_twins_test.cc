// Models of the zoo equal what was published of them as ONNX files: the convolutions and products,
// in order, and the number of learnable parameters.
//
// Needs the "light" files of ONNX's model zoo, which have no weights, in onnx/ of the shared data.
#include <gtest/gtest.h>

#include <filesystem>

#include "partitioner/onnx/import.h"
#include "partitioner/zoo.h"
#include "tests/support/shared_data.h"

namespace kerf::partitioner::onnx {
namespace {

using Ints = std::vector<int64_t>;

int64_t learnable(const Model& model) {
  int64_t count = 0;
  for (const ValueId id : model.parameters()) count += model.value(id).spec.shape.elements();
  return count;
}

// "Conv 64x3x7x7 bias strides 2,2 pads 3,3,3,3 dilations 1,1 group 1".
std::vector<std::string> weighted_nodes(const Model& model) {
  std::vector<std::string> list;
  for (NodeId id = 0; id < model.nodes(); ++id) {
    const Node& node = model.node(id);
    if (node.op != "Conv" && node.op != "Gemm" && node.op != "MatMul") continue;
    ops::Shape weight = model.value(node.inputs[1]).spec.shape;
    const auto ints = [&](const char* name, const Ints& otherwise) {
      return format("{}", fmt::join(ops::attribute_ints(node.attributes, name, otherwise), ","));
    };
    // [outputs, inputs], whichever way it lies.
    if (node.op == "MatMul" ||
        (node.op == "Gemm" && ops::attribute_int(node.attributes, "transB", 0) == 0))
      std::swap(weight[0], weight[1]);
    std::string text = format("{} {}{}", node.op == "Conv" ? "Conv" : "Gemm",
                              fmt::join(weight.begin(), weight.end(), "x"),
                              node.inputs.size() > 2 && node.inputs[2] >= 0 ? " bias" : "");
    if (node.op == "Conv")
      text += format(" strides {} pads {} dilations {} group {}", ints("strides", {1, 1}),
                     ints("pads", {0, 0, 0, 0}), ints("dilations", {1, 1}),
                     ops::attribute_int(node.attributes, "group", 1));
    list.push_back(std::move(text));
  }
  return list;
}

struct Twin {
  const char* model;
  const char* file;
  int64_t parameters;
};

std::ostream& operator<<(std::ostream& out, const Twin& twin) { return out << twin.model; }

class ZooTwins : public ::testing::TestWithParam<Twin> {};

TEST_P(ZooTwins, HaveTheSameWeightsInTheSamePlaces) {
  const std::filesystem::path folder = tests::shared_data(KERF_SOURCE_DIR, "onnx");
  if (folder.empty()) GTEST_SKIP() << tests::kNoSharedData;
  const std::filesystem::path file = folder / GetParam().file;
  ASSERT_TRUE(std::filesystem::exists(file)) << file;
  const Model published = import_file(file).model;
  const Model mine = make_zoo_model(GetParam().model);
  EXPECT_EQ(weighted_nodes(mine), weighted_nodes(published));
  EXPECT_EQ(learnable(mine), GetParam().parameters);
  EXPECT_EQ(learnable(published), GetParam().parameters);
}

// SqueezeNet is version 1.1, Inception v1 Caffe's GoogLeNet, ResNet-50 has its strides in the 3x3:
// torchvision's too, where it has the model.
INSTANTIATE_TEST_SUITE_P(
    Light, ZooTwins,
    ::testing::Values(Twin{"bvlc-alexnet", "light_bvlc_alexnet.onnx", 60'965'224},
                      Twin{"inception-v1", "light_inception_v1.onnx", 6'998'552},
                      Twin{"resnet50", "light_resnet50.onnx", 25'557'032},
                      Twin{"squeezenet", "light_squeezenet.onnx", 1'235'496},
                      Twin{"vgg19", "light_vgg19.onnx", 143'667'240}));

}  // namespace
}  // namespace kerf::partitioner::onnx
