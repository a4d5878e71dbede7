// Division by space: rows of images, halos between neighbours, the rest by what suits it.
#include <gmock/gmock.h>

#include "partitioner/boundaries.h"
#include "partitioner/builder.h"
#include "partitioner/connected_plan.h"
#include "partitioner/cuts/space.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/sample_models.h"
#include "tests/partitioner/step_checks.h"
#include "tests/partitioner/wide_models.h"

namespace kerf::partitioner {
namespace {

using testing::request_of;

struct OverSpace {
  Model model;
  Plan plan;
};
// Without a file of shares.
PlanRequest by_space(int workers, int64_t batch, int micro_batches) {
  PlanRequest request = request_of(Cut::kFree, workers, batch, micro_batches);
  request.shares.clear();
  return request;
}
OverSpace over_space(const Model& model, int workers, int64_t batch, int micro_batches) {
  const PlanRequest request = by_space(workers, batch, micro_batches);
  Model rewritten = model_for(model, request);
  Plan plan = testing::plan_of(rewritten, request);
  return {std::move(rewritten), std::move(plan)};
}

// Of values from part to part in a step, without parameters; -1: of all.
int64_t forward_bytes(const OverSpace& made, const std::string& value = {}) {
  const auto traffic = predict_traffic(made.model, made.plan, made.plan.batch, false);
  int64_t bytes = 0;
  for (size_t r = 0; r < made.plan.routes.size(); ++r)
    if (value.empty() || value_name(made.model, made.plan.routes[r]) == value)
      bytes += is_of_step(made.model, made.plan.routes[r]) ? 0 : traffic[r].bytes;
  return bytes;
}

// 3 x 3 windows, padded, over 32 rows of 32 pixels; and a pool of 2 x 2.
Model convolutions() {
  Builder b("convolutions");
  const ConvOptions same{.channels = 6, .kernel = {3, 3}, .pad = {1, 1}};
  ValueId x = b.conv(b.input("x", {ops::kBatch, 3, 32, 32}), same, "conv1");
  x = b.conv(b.relu(x, "relu1"), same, "conv2");
  x = b.max_pool(x, 2, 2, "pool");
  b.loss(b.gemm(b.flatten(x, "flatten"), 10, "fc"));
  return b.build();
}

TEST(SpaceCut, NeighboursExchangeTheRowsThatAWindowIsHigherThanItsStride) {
  const OverSpace made = over_space(convolutions(), 4, 8, 2);
  const int64_t row = 8 * 6 * 32 * 4;  // samples, channels, columns, bytes
  EXPECT_EQ(forward_bytes(made, "relu1.output"), 3 * 2 * row);
}

TEST(SpaceCut, APoolWithoutOverlapIsWhereItsRowsAre) {
  for (const int workers : {2, 3, 4, 5})
    EXPECT_EQ(forward_bytes(over_space(convolutions(), workers, 8, 2), "conv2.output"), 0)
        << workers;
}

// Of what a model gives no part may have a partial sum.
TEST(SpaceCut, WhatAModelGivesIsNotSummedOverRows) {
  Builder b("backbone");
  const ValueId x = b.input("x", {ops::kBatch, 3, 32, 32});
  const ValueId y = b.conv(x, {.channels = 6, .kernel = {3, 3}, .pad = {1, 1}}, "conv");
  const ValueId mean = b.node("GlobalAveragePool", {y}, {}, "mean");
  const OverSpace made = over_space(b.build(), 2, 8, 2);
  const auto text = [&](ValueId value) {
    return ops::describe(made.plan.layouts[static_cast<size_t>(value)]);
  };
  EXPECT_EQ(text(y), "split on axis 2 over 0,1");
  EXPECT_EQ(text(mean), "split on axis 0 over 0,1");
}

TEST(SpaceCut, SmallImagesAreDividedBySampleWhereThereAreEnough) {
  const Model model = convolutions();
  PlanRequest request = by_space(9, 18, 2);  // 9 rows of a step, 36 of an image
  EXPECT_FALSE(has_space_to_divide(model, request));
  const auto divisions = divisions_by_space(model, request, false);
  const auto& conv = divisions[static_cast<size_t>(model.find_node("conv1"))];
  ASSERT_TRUE(conv);
  EXPECT_EQ(ops::to_string(conv->shares[1].box.axes[0]), "1");
  request.workers = 8;
  EXPECT_TRUE(has_space_to_divide(model, request));
}

// Beside the convolutions these scores and their loss are nothing: they are divided all the same,
// so that no worker has all weights of a layer.
TEST(SpaceCut, ALayerIsDividedHoweverLittleItIs) {
  const Model model = convolutions();
  const Assignment assignment = cut_free(model, by_space(4, 32, 2));
  for (const char* node : {"fc", "loss"})
    EXPECT_EQ(assignment.division.nodes[static_cast<size_t>(model.find_node(node))].shares.size(),
              4U)
        << node;
}

// Of 6144 features of 64 rows, which lie by sample, a worker reads its quarter of the features: all
// but its own 16 rows.
TEST(SpaceCut, ManyFeaturesThatLieBySampleAreReadByFeature) {
  Builder b("classifier");
  const ValueId x = b.conv(b.input("x", {ops::kBatch, 3, 8, 8}), {.channels = 96}, "conv");
  b.loss(b.gemm(b.relu(b.gemm(b.flatten(x, "flatten"), 64, "fc1"), "relu"), 10, "fc2"));
  const Model model = b.build();
  const OverSpace made = over_space(model, 4, 64, 1);
  EXPECT_EQ(ops::describe(made.plan.layouts[static_cast<size_t>(model.find_value("conv.output"))]),
            "split on axis 0 over 0,1,2,3");
  EXPECT_EQ(ops::describe(made.plan.layouts[static_cast<size_t>(model.find_value("fc1.output"))]),
            "partial sums on 0,1,2,3");
  EXPECT_EQ(forward_bytes(made, "conv.output") + forward_bytes(made, "flatten.output"),
            int64_t{4} * 48 * (96 * 8 * 8 / 4) * 4);
}

// Pairs of products and normalisations by feature too; a loss stays by sample.
TEST(SpaceCut, WhatIsNoImageIsDividedAsByTheFeatureCut) {
  for (const Model& model :
       {make_zoo_model("mlp", {{20, 16, 16, 5}}), make_zoo_model("gpt", {{1, 16, 4, 4, 24}})}) {
    PlanRequest request = by_space(4, 8, 2);
    const Model by_free = model_for(model, request);
    const Division free = cut_free(by_free, request).division;
    request.cut = Cut::kFeature;
    const Model by_feature = model_for(model, request);
    const Division feature = cut_feature(by_feature, request).division;
    int compared = 0;
    for (NodeId node = 0; node < by_free.nodes(); ++node) {
      const std::string& name = by_free.node(node).name;
      const NodeId same = by_feature.find_node(name);
      if (by_free.op(node).is_loss() || same < 0) continue;
      EXPECT_EQ(free.nodes[static_cast<size_t>(node)], feature.nodes[static_cast<size_t>(same)])
          << name;
      ++compared;
    }
    EXPECT_GE(compared, by_free.nodes() - 1) << model.name();
  }
}

TEST(SpaceCut, TrainsAsOneWorkerDoes) {
  for (const Model& model : {make_zoo_model("lenet5"), make_zoo_model("lenet5-bn"),
                             testing::normalized_images(), convolutions()})
    for (const int workers : {2, 3}) {
      SCOPED_TRACE(format("{} over {}", model.name(), workers));
      const OverSpace made = over_space(model, workers, 10, 3);
      StepResult got = run(made.model, made.plan);
      StepResult expected = run(model, partitioner::plan_of(model, Cut::kLayer, 1));
      got.values.clear();  // a rewritten model has others
      expected.values.clear();
      expect_close(got, expected, 1e-4F);
    }
}

// What moves over the wire forward, at four workers and 32 rows.
TEST(SpaceCut, MovesHalosAndLittleElseOfLargeModels) {
  for (const auto& [name, megabytes] :
       {std::pair{"vgg19", 127}, std::pair{"resnet50", 80}, std::pair{"shufflenet", 80}}) {
    PlanRequest request = by_space(4, 32, 8);
    const Model model = model_for(make_zoo_model(name), request);
    const OverSpace made{model, connected_plan(model, request, cut_free(model, request))};
    EXPECT_LE(forward_bytes(made), megabytes * 1'000'000) << name;
    EXPECT_GT(forward_bytes(made), 0) << name;
  }
}

}  // namespace
}  // namespace kerf::partitioner
