// The step vector's routes: every entry is said, by one part of a layer cut; and the result goes to
// whoever updates.
#include "partitioner/step_vector.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <set>

#include "partitioner/plan_json.h"
#include "partitioner/sources.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::plan_of;
using testing::request_of;
using testing::sample_models;
using testing::sample_plans;
using testing::small_mlp;

bool is_step(const Route& route) { return route.value == kStepVector; }

TEST(StepVector, HasAnEntryForEveryMicroBatchAndAllThatIsKept) {
  const Model model = small_mlp();
  const StepVector vector(model, 3);
  std::set<int> entries;
  for (int m = 0; m < 3; ++m) entries.insert({vector.loss_of(m), vector.correct_of(m)});
  for (const ValueId id : model.kept_values()) entries.insert(vector.norm_of(model.value(id)));
  EXPECT_EQ(entries.size(), 2 * 3 + model.kept_values().size());
  EXPECT_EQ(*entries.begin(), StepVector::kResults);
  EXPECT_EQ(*entries.rbegin(), vector.size() - 1);
  EXPECT_EQ(entry_name(model, vector, vector.loss_of(2)), "the loss");
  EXPECT_EQ(entry_name(model, vector, vector.size() - 1), "the gradient of fc3.bias");
}

TEST(StepVector, EveryEntryIsSaidAndByOnePartOfALayerCut) {
  for (const auto& [model, plan] : sample_plans()) {
    const StepVector vector(model, plan.micro_batches);
    std::vector<int> said(static_cast<size_t>(vector.size()));
    for (const StepMember& member : step_members(Sources(model, plan.division), plan.micro_batches))
      for (const ops::Range& range : member.says.ranges())
        for (int64_t entry = range.begin; entry < range.end; ++entry)
          ++said[static_cast<size_t>(entry)];
    for (int entry = StepVector::kResults; entry < vector.size(); ++entry) {
      EXPECT_GE(said[static_cast<size_t>(entry)], 1) << entry_name(model, vector, entry);
      if (plan.cut == Cut::kLayer) {
        EXPECT_EQ(said[static_cast<size_t>(entry)], 1) << entry_name(model, vector, entry);
      }
    }
  }
}

TEST(StepVector, SharesGoToTheRootAndItsResultToAllThatUpdate) {
  for (const auto& [model, plan] : sample_plans()) {
    std::set<int> update;
    for (const ValueId id : model.parameters())
      for (const ops::Share& home : plan.layouts[static_cast<size_t>(id)].shares)
        update.insert(home.part);
    const int root = step_members(Sources(model, plan.division), plan.micro_batches).front().part;
    update.erase(root);
    std::set<int> told;
    for (const Route& route : plan.routes) {
      if (!is_step(route)) continue;
      EXPECT_EQ(kind_of(model, plan.division, route), RouteKind::kStep);
      EXPECT_TRUE(is_of_step(model, route));
      EXPECT_TRUE(route.from == root || route.to == root);
      if (route.from != root) continue;
      EXPECT_TRUE(told.insert(route.to).second);
      EXPECT_EQ(message_bytes(model, route, 7), 8U * StepVector::kResults);
    }
    EXPECT_EQ(told, update) << model.name() << " " << to_string(plan.cut);
  }
}

TEST(StepVector, OfOnePartTravelsNowhere) {
  for (const Model& model : sample_models())
    EXPECT_THAT(plan_of(model, request_of(Cut::kLayer, 1)).routes, ::testing::IsEmpty());
}

TEST(StepVector, ComesToSumsAndToTheFirstThatIsNotFinite) {
  const Model model = small_mlp();
  const StepVector vector(model, 2);
  std::vector<double> sums(static_cast<size_t>(vector.size()));
  std::iota(sums.begin(), sums.end(), 0.0);  // losses 4 and 5, right 6 and 7, norms 8 to 13
  std::vector<double> result(StepVector::kResults);
  conclude(model, vector, sums, result.data());
  EXPECT_THAT(result, ::testing::ElementsAre(0, 9, 13, 8 + 9 + 10 + 11 + 12 + 13));
  sums[12] = INFINITY;
  sums[10] = NAN;
  conclude(model, vector, sums, result.data());
  EXPECT_EQ(result[StepVector::kCause], 10);
  EXPECT_EQ(result[StepVector::kLoss], 9);
  sums[5] = -INFINITY;
  conclude(model, vector, sums, result.data());
  EXPECT_EQ(entry_name(model, vector, static_cast<int>(result[StepVector::kCause])), "the loss");
}

// Files of earlier versions have no such routes, and predictions without them.
TEST(StepVector, IsAddedToAPlanOfAFileThatLacksIt) {
  for (const auto& [model, plan] : sample_plans()) {
    Plan before = plan;
    std::erase_if(before.routes, is_step);
    const auto traffic = predict_traffic(model, plan, plan.batch);
    for (const Route& route : plan.routes) {
      if (!is_step(route) || is_local(plan, route)) continue;
      const std::vector<int>& binding = plan.binding;
      const auto worker = [&](int part) -> WorkerPrediction& {
        return before.workers[static_cast<size_t>(binding[static_cast<size_t>(part)])];
      };
      const Traffic& one = traffic[static_cast<size_t>(route.id)];
      worker(route.from).messages -= one.messages;
      worker(route.from).bytes_out -= one.bytes;
      worker(route.to).bytes_in -= one.bytes;
    }
    EXPECT_EQ(read_plan(model, write_plan(model, before), "plan.json"), plan);
    before.workers[0].messages += 1;
    EXPECT_THROW(read_plan(model, write_plan(model, before), "plan.json"), Error);
  }
}

}  // namespace
}  // namespace kerf::partitioner
