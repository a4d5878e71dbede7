// Plans of decisions: what follows from what was decided may be left out, and is derived.
#include <gmock/gmock.h>

#include "partitioner/plan_json.h"
#include "tests/partitioner/plan_texts.h"

namespace kerf::partitioner {
namespace {

using testing::expect_same_but_for_bound;
using testing::kFollows;
using testing::OneInFlight;
using testing::plan_of;
using testing::request_of;
using testing::sample_plans;
using testing::small_mlp;

TEST(PlanOfDecisions, ReadsBackWhole) {
  for (const auto& [model, plan] : sample_plans()) {
    const std::string text = write_plan(model, plan, PlanText::kDecisions);
    const Json json = parse_json(text, "plan.json");
    for (const std::string& key : kFollows) {
      if (key != "layouts" || plan.cut != Cut::kFree) {
        EXPECT_FALSE(json.contains(key)) << key;
      }
    }
    const Plan back = read_plan(model, text, "plan.json");
    expect_same_but_for_bound(back, plan);
    EXPECT_EQ(back.bound, std::nullopt);
    EXPECT_GT(back.bottleneck, 0);
    EXPECT_EQ(write_plan(model, back, PlanText::kDecisions), text);
  }
}

TEST(PlanOfDecisions, MovesABoundaryByOneLine) {
  const Model model = small_mlp();
  std::string text =
      write_plan(model, plan_of(model, request_of(Cut::kLayer, 2)), PlanText::kDecisions);
  const std::string stage = "{\"parts\": [1], \"first\": \"";
  for (const char* first : {"relu1", "fc2", "relu2", "fc3"}) {
    const size_t at = text.find(stage) + stage.size();
    ASSERT_LT(at, text.size()) << text;
    text.replace(at, text.find('"', at) - at, first);
    const Plan moved = read_plan(model, text, "plan.json");
    EXPECT_THAT(validate(model, moved), ::testing::IsEmpty());
    EXPECT_EQ(model.node(moved.stages[1].nodes.front()).name, first);
    EXPECT_EQ(moved.stages[0].nodes.size() + moved.stages[1].nodes.size(),
              static_cast<size_t>(model.nodes()));
  }
}

TEST(PlanText, MayLackWhatFollows) {
  for (const auto& [model, plan] : sample_plans()) {
    const Json whole = parse_json(write_plan(model, plan), "p.json");
    for (const std::string& key : kFollows) {
      if (key == "layouts" && plan.cut == Cut::kFree && plan.parts() > 1) continue;
      Json json = whole;
      json.erase(key);
      expect_same_but_for_bound(read_plan(model, readable_json(json), "p.json"), plan);
      for (const char* more : {"routes", "workers"}) json.erase(more);
      expect_same_but_for_bound(read_plan(model, readable_json(json), "p.json"), plan);
    }
    Json json = whole;
    for (const auto& [value, shares] : whole["layouts"].items()) {
      if (model.value(model.find_value(value)).role == Role::kActivation) continue;
      json["layouts"].erase(value);
    }
    EXPECT_EQ(read_plan(model, readable_json(json), "p.json"), plan);
  }
}

TEST(PlanText, PredictsWithWhatTheScheduleHasInFlight) {
  const Model model = small_mlp();
  const PlanRequest request = request_of(Cut::kLayer, 2);
  const Plan plan = std::get<Plan>(make_plan(model, request, OneInFlight()));
  const std::string text = write_plan(model, plan, PlanText::kDecisions);
  std::string asked;
  const Plan back = read_plan(model, text, "p.json", [&](const std::string& schedule) {
    asked = schedule;
    return std::make_unique<OneInFlight>();
  });
  EXPECT_EQ(asked, "1f1b");
  EXPECT_EQ(back.workers, plan.workers);
  EXPECT_NE(read_plan(model, text, "p.json").workers, plan.workers);
}

}  // namespace
}  // namespace kerf::partitioner
