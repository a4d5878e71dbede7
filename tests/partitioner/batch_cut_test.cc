// The batch cut: every operator over all workers by sample; parameters once, wherever they are.
#include <gmock/gmock.h>

#include "partitioner/cut.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/sample_models.h"
#include "tests/partitioner/step_checks.h"
#include "tests/partitioner/wide_models.h"

namespace kerf::partitioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::request_of;

PlanRequest by_batch(int workers, int64_t batch, int micro_batches) {
  return request_of(Cut::kBatch, workers, batch, micro_batches);
}

// What the cut makes of a model, in which what it rewrites is rewritten.
struct Made {
  Model model;
  Plan plan;
};
Made made_of(const Model& model, const PlanRequest& request) {
  Model rewritten = model_for(model, request);
  Plan plan = testing::plan_of(rewritten, request);
  return {std::move(rewritten), std::move(plan)};
}

// How many indices of its first axis each worker has of a node's output.
std::vector<int64_t> rows(const Made& made, const std::string& node) {
  const ValueId output = made.model.node(made.model.find_node(node)).outputs[0];
  const ops::Shape shape =
      made.model.value(output).spec.shape.with_batch(made.plan.largest_micro_batch());
  std::vector<int64_t> sizes;
  for (const ops::Share& share : made.plan.layouts[static_cast<size_t>(output)].shares)
    sizes.push_back(share.box.axes[0].size(shape[0]));
  return sizes;
}

TEST(BatchCut, TenSamplesOverFourAreThreeThreeTwoTwo) {
  const Made made = made_of(testing::small_mlp(), by_batch(4, 30, 3));
  ASSERT_EQ(made.plan.stages.size(), 1U);
  for (const char* node : {"fc1", "relu1", "fc3"})
    EXPECT_THAT(rows(made, node), ElementsAre(3, 3, 2, 2)) << node;
}

TEST(BatchCut, TheRowsOfASampleStayTogether) {
  const Made made = made_of(testing::attention(), by_batch(2, 9, 3));
  EXPECT_THAT(rows(made, "rows"), ElementsAre(2 * testing::kLength, testing::kLength));
}

TEST(BatchCut, WhatCountsNoSamplesIsEverybodys) {
  const Made made = made_of(testing::normalized_images(), by_batch(3, 9, 3));
  const ValueId mean = made.model.node(made.model.find_node("bn1.statistics")).outputs[0];
  EXPECT_EQ(ops::describe(made.plan.layouts[static_cast<size_t>(mean)]), "replicated on 0,1,2");
}

// The master and the optimizer's state, that is; the copies to read are everybody's.
TEST(BatchCut, EveryElementOfAParameterHasOneHome) {
  const Made made = made_of(testing::small_mlp(), by_batch(3, 30, 3));
  int64_t bytes = 0;
  for (const WorkerPrediction& worker : made.plan.workers) {
    EXPECT_GT(worker.weight_bytes, 0);
    bytes += worker.weight_bytes;
  }
  int64_t elements = 0;
  for (const ValueId id : made.model.parameters())
    elements += made.model.value(id).spec.shape.elements();
  EXPECT_EQ(bytes, 4 * elements);
}

TEST(BatchCut, OnlyGradientsAndWeightsTravelAndOnceAStep) {
  const Made few = made_of(testing::small_mlp(), by_batch(3, 30, 2));
  const Made many = made_of(testing::small_mlp(), by_batch(3, 30, 5));
  for (const Route& route : few.plan.routes) EXPECT_TRUE(is_of_step(few.model, route));
  EXPECT_EQ(few.plan.routes.size(), many.plan.routes.size());
}

TEST(BatchCut, ADividedBatchIsNormalisedAsAWhole) {
  const Model images = testing::normalized_images();
  EXPECT_EQ(made_of(images, by_batch(2, 8, 2)).model.rewrites().size(), 2U);
  EXPECT_TRUE(made_of(images, by_batch(1, 8, 2)).model.rewrites().empty());
  EXPECT_THAT(testing::complaint([&] { testing::plan_of(images, by_batch(2, 8, 2)); }),
              HasSubstr("node bn1: BatchNormalization cannot be divided by sample"));
}

// Micro-batches of 4, 3 and 3 rows, of which the last worker has one or none.
TEST(BatchCut, TrainsAsOneWorkerDoes) {
  for (const Model& model : {testing::attention(), testing::recurrent(), testing::tied(),
                             testing::stretches(), testing::normalized_images()})
    for (const int workers : {2, 4}) {
      SCOPED_TRACE(model.name());
      const Made made = made_of(model, by_batch(workers, 10, 3));
      StepResult got = run(made.model, made.plan);
      StepResult expected = run(model, partitioner::plan_of(model, Cut::kLayer, 1));
      got.values.clear();  // a rewritten model has others
      expected.values.clear();
      expect_close(got, expected, 1e-5F);
    }
}

TEST(BatchCut, AWorkerWithoutRowsIsRefused) {
  EXPECT_THAT(testing::complaint([] { made_of(testing::small_mlp(), by_batch(5, 12, 3)); }),
              AllOf(HasSubstr("worker 4 would have nothing to compute"),
                    HasSubstr("micro-batches have 4 rows at most; use --workers 4 or fewer")));
}

TEST(BatchCut, WhatMixesSamplesIsRefusedByName) {
  Builder b("mixed");
  const ValueId x = b.gemm(b.input("x", {ops::kBatch, 4}), 6, "fc");
  const ValueId turned = testing::by_axes(b, x, {1, 0}, "turned");
  b.loss(b.reshape(b.reshape(turned, {-1}, "in_a_row"), {-1, 6}, "dealt"));
  const Model model = b.build();
  EXPECT_THAT(testing::complaint([&] { made_of(model, by_batch(2, 8, 2)); }),
              HasSubstr("node in_a_row: Reshape cannot be divided by sample"));
}

// A plan's short text says nothing of divisions: they follow from the cut.
TEST(BatchCut, ItsDivisionsFollowFromItsStages) {
  const Model model = testing::small_mlp();
  const Plan plan = testing::plan_of(model, by_batch(3, 30, 3));
  const Plan read = read_plan(model, write_plan(model, plan, PlanText::kDecisions), "p");
  EXPECT_EQ(read.division.nodes, plan.division.nodes);
  EXPECT_EQ(read.routes, plan.routes);
}

}  // namespace
}  // namespace kerf::partitioner
