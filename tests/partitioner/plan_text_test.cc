// Plans as text: what is written reads back identically, and reads well.
#include <gmock/gmock.h>

#include "partitioner/plan_json.h"
#include "tests/partitioner/plan_texts.h"

namespace kerf::partitioner {
namespace {

using testing::divided_plan;
using testing::expect_same_but_for_bound;
using ::testing::HasSubstr;
using testing::plan_of;
using testing::request_of;
using testing::sample_plans;
using testing::small_mlp;
using ::testing::StartsWith;

TEST(PlanText, ReadsBackIdenticallyForEveryModelAndCut) {
  for (const auto& [model, plan] : sample_plans()) {
    const std::string text = write_plan(model, plan);
    const Plan back = read_plan(model, text, "plan.json");
    EXPECT_EQ(back, plan) << model.name() << " " << to_string(plan.cut);
    EXPECT_EQ(write_plan(model, back), text);
  }
}

TEST(PlanText, NumbersKeepEveryBit) {
  const Model model = small_mlp();
  Plan plan = plan_of(model, request_of(Cut::kLayer, 2));
  for (const double number : {0.1 + 0.2, 1e300, 5e-324, 1.0, 1.0 / 3, 123456789012345680.0}) {
    plan.bottleneck = number;
    plan.workers[0].seconds = number;
    EXPECT_EQ(read_plan(model, write_plan(model, plan), "plan.json"), plan) << number;
  }
}

TEST(PlanText, TellsNoBoundWhereThereIsNone) {
  const Model model = small_mlp();
  Plan plan = plan_of(model, request_of(Cut::kLayer, 2));
  plan.bound = std::nullopt;
  const std::string text = write_plan(model, plan);
  EXPECT_FALSE(parse_json(text, "plan.json").contains("bound"));
  EXPECT_EQ(read_plan(model, text, "plan.json"), plan);
}

TEST(PlanText, IsForPeople) {
  const Model model = small_mlp();
  const std::string text = write_plan(model, plan_of(model, request_of(Cut::kFeature, 3)));
  EXPECT_THAT(text, StartsWith("{\n  \"kerf_plan\": 1,\n  \"model\": \"mlp\",\n"));
  EXPECT_THAT(text, HasSubstr("\"cut\": \"feature\""));
  EXPECT_THAT(text, HasSubstr("{\"part\": 0, \"box\": [\"all\", \"0-5\"]}"));  // 16 over 3: 6+5+5
  EXPECT_THAT(text, HasSubstr("\"direction\": \"backward\""));
  size_t longest = 0;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    longest = std::max(longest, end - at);
  EXPECT_LE(longest, 160u);
}

TEST(PlanText, KeepsWhichStagesInterleave) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 2);
  for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
    Plan plan = plan_of(model, request);
    plan.stages[1].interleaved = true;
    plan.workers = predict(model, plan, request, *hold_everything());
    const Plan back = read_plan(model, write_plan(model, plan, form), "p.json");
    EXPECT_EQ(back.stages, plan.stages);
    EXPECT_EQ(back.workers, plan.workers);
  }
}

TEST(PlanText, KeepsTheRowsOfEachMicroBatch) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 2, 32, 4);
  request.given_sizes = {16, 8, 6, 2};
  const Plan plan = plan_of(model, request);
  EXPECT_THAT(validate(model, plan), ::testing::IsEmpty());
  for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
    const std::string text = write_plan(model, plan, form);
    EXPECT_THAT(text, HasSubstr("\n  \"batch\": 32,\n  \"micro_batches\": [16, 8, 6, 2],\n"));
    const Plan back = read_plan(model, text, "p.json");
    EXPECT_EQ(back.given_sizes, request.given_sizes);
    expect_same_but_for_bound(back, plan);
    EXPECT_EQ(write_plan(model, back, form), text);
  }
  request.given_sizes.clear();
  EXPECT_THAT(write_plan(model, plan_of(model, request)), HasSubstr("\"micro_batches\": 4,\n"));
}

TEST(PlanText, KeepsTheRequest) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.source = "mlp 20-16-12-10";
  request.memory = 123456789;
  request.minimise = Minimise::kForwardFlops;
  request.setting = {
      .slots = 7, .slot_place = SlotPlace::kBothEnds, .optimizer_states = 2, .threads = 3};
  request.momentum = 0.75;
  request.speed.profile = {{{"fc1", {2, 0.5, 1}}}, {3, 1, 1}};
  const Plan plan = plan_of(model, request);
  for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
    const Plan back = read_plan(model, write_plan(model, plan, form), "p.json");
    const KeptRequest expected{request.source,       request.memory,   request.minimise,
                               request.setting,      request.momentum, "",
                               request.speed.profile};
    EXPECT_EQ(back.request, expected);
    EXPECT_EQ(back.workers, plan.workers);  // predicted with it
  }
  for (const SlotPlace place : {SlotPlace::kSender, SlotPlace::kBothEnds, SlotPlace::kExported}) {
    request.setting.slot_place = place;
    const std::string text = write_plan(model, plan_of(model, request));
    EXPECT_EQ(read_plan(model, text, "p.json").request->setting, request.setting);
  }
  Json json = parse_json(write_plan(model, plan), "p.json");
  json["request"] = Json::object();
  for (const char* key : {"workers", "bottleneck", "bound", "checksum"}) json.erase(key);
  EXPECT_EQ(read_plan(model, readable_json(json), "p.json").request, KeptRequest{});
  json.erase("request");
  EXPECT_EQ(read_plan(model, readable_json(json), "p.json").request, std::nullopt);
}

// What products are without pairs follows from the text, which is as short as with them.
TEST(PlanText, KeepsWhetherProductsArePairs) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kFeature, 2);
  const Plan with = plan_of(model, request);
  request.pairs = false;
  const Plan plan = plan_of(model, request);
  ASSERT_NE(plan.division.nodes, with.division.nodes);
  EXPECT_EQ(write_plan(model, with).find("\"pairs\""), std::string::npos);
  for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
    const std::string text = write_plan(model, plan, form);
    const Plan back = read_plan(model, text, "p.json");
    EXPECT_FALSE(back.request->pairs);
    EXPECT_EQ(back.division.nodes, plan.division.nodes);
    if (form == PlanText::kDecisions) {
      EXPECT_EQ(text.find("\"layouts\""), std::string::npos);
    }
  }
}

TEST(PlanText, KeepsDivisionsThatNoLayoutTells) {
  const Model model = small_mlp();
  const Plan plan = divided_plan(model);
  EXPECT_THAT(validate(model, plan), ::testing::IsEmpty());
  for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
    const std::string text = write_plan(model, plan, form);
    const Json json = parse_json(text, "p.json");
    ASSERT_TRUE(json.contains("divisions")) << text;
    EXPECT_TRUE(json["divisions"].contains("fc1")) << "partial sums tell of no inputs";
    EXPECT_TRUE(json["divisions"].contains("loss")) << "a number has no samples";
    EXPECT_FALSE(json["divisions"].contains("fc2")) << "its layout tells";
    const Plan back = read_plan(model, text, "p.json");
    EXPECT_EQ(back.division, plan.division);
    expect_same_but_for_bound(back, plan);
    EXPECT_EQ(write_plan(model, back, form), text);
  }
  EXPECT_EQ(read_plan(model, write_plan(model, plan), "p.json"), plan);
}

// Who edits a plan may say by hand how a node is divided.
TEST(PlanText, TakesDivisionsInTheStagesOfACut) {
  const Model model = small_mlp();
  Json json = parse_json(
      write_plan(model, plan_of(model, request_of(Cut::kFeature, 2)), PlanText::kDecisions), "p");
  json["divisions"]["fc2"] = parse_json(
      R"([{"part": 0, "box": ["all", "all", "0-7"]}, {"part": 1, "box": ["all", "all", "8-15"]}])",
      "p");
  const Plan plan = read_plan(model, readable_json(json), "p.json");
  EXPECT_THAT(validate(model, plan), ::testing::IsEmpty());
  const auto fc2 = static_cast<size_t>(model.node(model.find_node("fc2")).outputs[0]);
  EXPECT_EQ(ops::describe(plan.layouts[fc2]), "partial sums on 0,1");
  expect_same_but_for_bound(read_plan(model, write_plan(model, plan), "p.json"), plan);
}

// "all" and the indices of all of an axis are two spellings of one box: also of a micro-batch's
// rows.
TEST(PlanText, TakesAnotherSpellingOfTheSameBoxes) {
  const Model model = small_mlp();
  const Plan plan = divided_plan(model);
  Json json = parse_json(write_plan(model, plan), "p.json");
  json.erase("checksum");
  int respelled = 0;
  const auto respell = [&](Json& shares, const ops::Shape& shape) {
    for (Json& share : shares) {
      Json& box = share["box"];
      if (box == "all")
        box = Json(std::vector<std::string>(static_cast<size_t>(shape.rank()), "all"));
      for (int axis = 0; axis < shape.rank(); ++axis)
        if (Json& set = box[static_cast<size_t>(axis)]; set == "all") {
          set = format("0-{}", shape[axis] - 1);
          ++respelled;
        }
    }
  };
  for (const auto& [name, shares] : json["layouts"].items())
    respell(json["layouts"][name],
            model.value(model.find_value(name)).spec.shape.with_batch(plan.division.largest));
  for (const auto& [name, shares] : json["divisions"].items())
    respell(json["divisions"][name],
            model.op(model.find_node(name)).space().extents().with_batch(plan.division.largest));
  EXPECT_GT(respelled, 20);
  EXPECT_EQ(read_plan(model, readable_json(json), "p.json"), plan);
}

}  // namespace
}  // namespace kerf::partitioner
