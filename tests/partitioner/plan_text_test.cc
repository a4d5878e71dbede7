// Plans as text: what is written reads back identically, and what is not a sound plan for this
// model is refused with one error that names file and place. Nothing that a file may hold crashes
// the reader.
#include <gmock/gmock.h>

#include <random>

#include "partitioner/plan_json.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using testing::plan_of;
using testing::Planned;
using testing::request_of;
using testing::sample_plans;
using testing::skip_model;
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

// What follows from a plan's decisions, as its text may leave it out.
const std::vector<std::string> kFollows = {"layouts",    "routes", "workers",
                                           "bottleneck", "bound",  "checksum"};

// All but the bound, which nothing but the cut knows.
void expect_same_but_for_bound(Plan plan, const Plan& expected) {
  plan.bound = expected.bound;
  EXPECT_EQ(plan, expected) << expected.model << " " << to_string(expected.cut);
}

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
    EXPECT_EQ(back.bound, 0);
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

TEST(PlanText, PredictsWithTheObjectiveOfTheSchedule) {
  class One : public Objective {
   public:
    int in_flight(int, int, int) const override { return 1; }
  };
  const Model model = small_mlp();
  const PlanRequest request = request_of(Cut::kLayer, 2);
  const Plan plan = std::get<Plan>(make_plan(model, request, One()));
  const std::string text = write_plan(model, plan, PlanText::kDecisions);
  std::string asked;
  const Plan back = read_plan(model, text, "p.json", [&](const std::string& schedule) {
    asked = schedule;
    return std::make_unique<One>();
  });
  EXPECT_EQ(asked, "1f1b");
  EXPECT_EQ(back.workers, plan.workers);
  EXPECT_NE(read_plan(model, text, "p.json").workers, plan.workers);
}

TEST(PlanText, KeepsTheRequest) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 2);
  request.source = "mlp 20-16-12-10";
  request.memory = 123456789;
  request.minimise = Minimise::kForwardFlops;
  request.setting = {.slots = 7, .mirrored = true, .optimizer_states = 2, .threads = 3};
  request.momentum = 0.75;
  const Plan plan = plan_of(model, request);
  for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
    const Plan back = read_plan(model, write_plan(model, plan, form), "p.json");
    const KeptRequest expected{request.source, request.memory, request.minimise, request.setting,
                               request.momentum};
    EXPECT_EQ(back.request, expected);
    EXPECT_EQ(back.workers, plan.workers);  // predicted with it
  }
  Json json = parse_json(write_plan(model, plan), "p.json");
  json["request"] = Json::object();
  json.erase("checksum");
  EXPECT_EQ(read_plan(model, readable_json(json), "p.json").request, KeptRequest{});
  json.erase("request");
  EXPECT_EQ(read_plan(model, readable_json(json), "p.json").request, std::nullopt);
}

// By samples, by inputs, by both; the loss by samples.
Plan divided_plan(const Model& model) {
  PlanRequest request = request_of(Cut::kFree, 2, 30, 4);  // micro-batches of 8 and 7
  request.shares = R"({"kerf_shares": 1, "shares": {
      "fc1": {"0": {"inputs": "0-9,19"}, "1": {"inputs": "10-18"}},
      "relu1": {"0": {"samples": "0,2,4-5"}, "1": {"samples": "1,3,6-7"}},
      "fc2": {"0": {"samples": "0-3"}, "1": {"samples": "4-7"}},
      "fc3": {"0": {"outputs": "0-3,9", "inputs": "0-11"}, "1": "4-8"},
      "loss": {"0": {"samples": "0-6"}, "1": {"samples": "7"}}}})";
  return plan_of(model, request);
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

// "all" and the indices of all of an axis are two spellings of one box: also of a micro-batch's rows.
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

class BadPlan : public ::testing::Test {
 protected:
  std::string refusal(const Json& json) const { return refused(readable_json(json)); }
  std::string refused(const std::string& text) const {
    return complaint([&] { read_plan(model_, text, "p.json"); });
  }
  Json edited() const {
    Json json = parse_json(write_plan(model_, plan_), "p.json");
    json.erase("checksum");
    return json;
  }

  Model model_ = small_mlp();
  Plan plan_ = plan_of(model_, request_of(Cut::kFeature, 2));
};

TEST_F(BadPlan, OfAnotherModelOrVersion) {
  const Model other = skip_model();
  EXPECT_THAT(complaint([&] { read_plan(other, write_plan(model_, plan_), "p.json"); }),
              ::testing::AllOf(StartsWith("p.json: "), HasSubstr("another model"),
                               HasSubstr("kerf plan skip --out")));
  const Model wider = make_zoo_model("mlp", {{20, 16, 13, 10}});
  EXPECT_THAT(complaint([&] { read_plan(wider, write_plan(model_, plan_), "p.json"); }),
              HasSubstr("another model"));
  Json json = edited();
  json["kerf_plan"] = 2;
  EXPECT_THAT(refusal(json), HasSubstr("version 2"));
  EXPECT_THAT(refused("{}"), HasSubstr("not a plan of kerf"));
  EXPECT_THAT(refused("[1, 2]"), HasSubstr("not a plan of kerf"));
  EXPECT_THAT(refused(""), StartsWith("p.json"));
}

TEST_F(BadPlan, WithoutAMemberOrWithOneTooMany) {
  const Json whole = edited();
  for (const auto& [key, value] : whole.items()) {
    Json json = whole;
    if (key != "request" && std::find(kFollows.begin(), kFollows.end(), key) == kFollows.end()) {
      json.erase(key);
      EXPECT_THAT(refusal(json), HasSubstr(key)) << key;
      json = whole;
    }
    json[key] = nullptr;
    EXPECT_NE(refusal(json), "") << key;
  }
  Json more = whole;
  more["extra"] = 1;
  EXPECT_THAT(refusal(more), HasSubstr("\"extra\" is not a member"));
  more = whole;
  more["stages"][0]["colour"] = "red";
  EXPECT_THAT(refusal(more), HasSubstr("p.json: stages[0]: \"colour\""));
}

TEST_F(BadPlan, NamesThePlaceOfAWrongValue) {
  const auto wrong = [&](const std::function<void(Json&)>& change) {
    Json json = edited();
    change(json);
    return refusal(json);
  };
  EXPECT_THAT(wrong([](Json& j) { j["cut"] = "diagonal"; }), HasSubstr("p.json: cut"));
  EXPECT_THAT(wrong([](Json& j) { j["batch"] = "30"; }), HasSubstr("batch"));
  EXPECT_THAT(wrong([](Json& j) { j["micro_batches"] = 4000000000; }), HasSubstr("micro_batches"));
  EXPECT_THAT(wrong([](Json& j) { j["micro_batches"] = 31; }), HasSubstr("31 micro-batches"));
  EXPECT_THAT(wrong([](Json& j) { j["binding"] = {0, 4096}; }), HasSubstr("worker 4096"));
  EXPECT_THAT(wrong([](Json& j) { j["binding"] = {0, -1}; }), HasSubstr("binding"));
  EXPECT_THAT(wrong([](Json& j) { j["stages"][0]["nodes"][0] = "fc9"; }), HasSubstr("fc9"));
  EXPECT_THAT(wrong([](Json& j) { j["stages"][0]["nodes"].erase(0); }), HasSubstr("fc1"));
  EXPECT_THAT(wrong([](Json& j) { j["stages"][0]["first"] = "fc1"; }),
              HasSubstr("p.json: stages[0]: \"nodes\""));
  EXPECT_THAT(wrong([](Json& j) { j["cut"] = "free", j.erase("layouts"); }),
              HasSubstr("\"fc1.output\""));
  EXPECT_THAT(wrong([](Json& j) { j["request"]["slots"] = 0; }), HasSubstr("p.json: request"));
  EXPECT_THAT(wrong([](Json& j) { j["request"]["slots"] = 1 << 30; }), HasSubstr("at most"));
  EXPECT_THAT(wrong([](Json& j) { j["request"]["memory"] = 0; }), HasSubstr("memory"));
  EXPECT_THAT(wrong([](Json& j) { j["request"]["objective"] = "beauty"; }),
              HasSubstr("p.json: request.objective"));
  EXPECT_THAT(wrong([](Json& j) { j["layouts"]["fc1.output"][0]["box"] = "some"; }),
              HasSubstr("layouts.fc1.output"));
  EXPECT_THAT(wrong([](Json& j) { j["layouts"]["fc1.output"][0]["box"][1] = "3-1"; }),
              HasSubstr("layouts.fc1.output"));
  EXPECT_THAT(wrong([](Json& j) { j["layouts"]["fc1.output"][0]["box"][1] = "0-6"; }),
              HasSubstr("fc1.output"));
  EXPECT_THAT(wrong([](Json& j) { j["layouts"]["fc1.output"][0]["part"] = 7; }),
              HasSubstr("fc1.output"));
  EXPECT_THAT(wrong([](Json& j) { j["layouts"]["fc1.output"][0]["partial"] = true; }),
              HasSubstr("names the \"slices\""));
  EXPECT_THAT(wrong([](Json& j) { j["routes"].erase(0); }), HasSubstr("is missing"));
  EXPECT_THAT(wrong([](Json& j) { j["routes"][0]["to"] = 9; }), HasSubstr("route"));
  EXPECT_THAT(wrong([](Json& j) { j["workers"][1]["messages"] = 1; }), HasSubstr("worker 1"));
  EXPECT_THAT(wrong([](Json& j) { j["workers"][0]["seconds"] = -1.0; }), HasSubstr("workers[0]"));
}

TEST_F(BadPlan, WithDivisionsThatAreNone) {
  const auto wrong = [&](const std::string& divisions) {
    Json json = edited();
    for (const char* key : {"layouts", "routes", "workers"}) json.erase(key);
    json["divisions"] = parse_json(divisions, "test");
    return refusal(json);
  };
  const auto fc1 = [&](const std::string& shares) {
    return wrong(format("{{\"fc1\": {}}}", shares));
  };
  EXPECT_EQ(fc1(R"([{"part": 0, "box": ["all", "all", "0-9"]},
                    {"part": 1, "box": ["all", "all", "10-19"]}])"),
            "");
  EXPECT_THAT(wrong("5"), StartsWith("p.json: divisions: must be an object"));
  EXPECT_THAT(wrong(R"({"fc9": []})"), StartsWith("p.json: divisions.fc9: "));
  EXPECT_THAT(fc1("5"), StartsWith("p.json: divisions.fc1: must be an array"));
  EXPECT_THAT(fc1("[5]"), StartsWith("p.json: divisions.fc1: must be an object"));
  EXPECT_THAT(fc1(R"([{"part": 0}])"), StartsWith("p.json: divisions.fc1: \"box\""));
  EXPECT_THAT(fc1(R"([{"part": -1, "box": "all"}])"),
              StartsWith("p.json: divisions.fc1: \"part\""));
  EXPECT_THAT(fc1(R"([{"part": 0, "box": "all", "why": 1}])"),
              StartsWith("p.json: divisions.fc1: \"why\""));
  EXPECT_THAT(fc1(R"([{"part": 0, "box": "all", "partial": true}])"),
              StartsWith("p.json: divisions.fc1: \"partial\""));
  EXPECT_THAT(fc1(R"([{"part": 0, "box": "all", "slices": ["0-3"]}])"),
              StartsWith("p.json: divisions.fc1: \"slices\""));
  EXPECT_THAT(fc1(R"([{"part": 0, "box": ["all", "all"]}])"),
              StartsWith("p.json: divisions.fc1.box: must be \"all\" or an array of 3"));
  EXPECT_THAT(fc1(R"([{"part": 0, "box": ["all", "all", 7]}])"),
              StartsWith("p.json: divisions.fc1.box: an index set"));
  EXPECT_THAT(fc1(R"([{"part": 0, "box": ["all", "all", "3-1"]}])"),
              StartsWith("p.json: divisions.fc1.box"));
  EXPECT_THAT(fc1(R"([{"part": 0, "box": ["all", "all", "0-20"]}])"),
              StartsWith("p.json: divisions.fc1: part 0 holds 0-20 of axis 2"));
  EXPECT_THAT(fc1(R"([{"part": 0, "box": ["0-8", "all", "all"]}])"),
              StartsWith("p.json: divisions.fc1: part 0 holds 0-8 of axis 0"));
  // What only the whole shows: holes, overlaps, parts that are not there, what must stay whole.
  const auto refused_for = [&](const std::string& why, const std::string& node) {
    EXPECT_THAT(why, ::testing::AllOf(StartsWith("p.json: "), HasSubstr(node)));
  };
  refused_for(fc1(R"([{"part": 0, "box": ["all", "all", "0-9"]}])"), "fc1");
  refused_for(fc1(R"([{"part": 0, "box": ["0-5", "all", "all"]},
                      {"part": 1, "box": ["4-7", "all", "all"]}])"),
              "fc1");
  refused_for(fc1(R"([{"part": 0, "box": ["all", "all", "0-9"]},
                      {"part": 0, "box": ["all", "all", "10-19"]}])"),
              "fc1");
  refused_for(fc1(R"([{"part": 0, "box": ["0-3", "0-7", "all"]},
                      {"part": 1, "box": ["4-7", "8-15", "all"]}])"),
              "fc1");
  refused_for(fc1(R"([{"part": 7, "box": "all"}])"), "fc1");
  refused_for(wrong(R"({"loss": [{"part": 0, "box": ["all", "0-4"]},
                                 {"part": 1, "box": ["all", "5-9"]}]})"),
              "loss");
}

TEST_F(BadPlan, ChangedAfterItWasWritten) {
  Json json = parse_json(write_plan(model_, plan_), "p.json");
  json["workers"][0]["peak_bytes"] = 1;
  EXPECT_THAT(refusal(json), HasSubstr("remove the line \"checksum\""));
  json.erase("checksum");
  EXPECT_EQ(read_plan(model_, readable_json(json), "p.json").workers[0].peak_bytes, 1);
}

TEST_F(BadPlan, TruncatedAnywhere) {
  const std::string text = write_plan(model_, plan_);
  for (size_t length = 0; length + 2 < text.size(); ++length)
    ASSERT_THAT(refused(text.substr(0, length)), StartsWith("p.json")) << length;
}

// A byte may change and mean the same (a space for a newline); else it is found.
TEST_F(BadPlan, WithAnyBytesChanged) {
  std::mt19937 random(20260);
  const std::string text = write_plan(model_, plan_);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bad = text;
    for (unsigned change = 0; change <= random() % 3; ++change) {
      const size_t at = random() % bad.size();
      const unsigned kind = random() % 4;
      if (kind == 0) bad[at] = static_cast<char>(random() % 256);
      if (kind == 1) bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 7));
      if (kind == 2) bad.erase(at, 1 + random() % 5);
      if (kind == 3) bad.insert(at, bad.substr(random() % bad.size(), 1 + random() % 9));
    }
    const std::string why = complaint([&] { EXPECT_EQ(read_plan(model_, bad, "p.json"), plan_); });
    if (!why.empty()) {
      ASSERT_THAT(why, StartsWith("p.json")) << bad;
    }
  }
}

// The same without the checksum, or with decisions only: whatever is accepted is sound and reads
// back.
TEST_F(BadPlan, EditedAtRandom) {
  std::mt19937 random(4711);
  const Plan stages = plan_of(model_, request_of(Cut::kHybrid, 4));
  const Plan divided = divided_plan(model_);
  const std::vector<std::string> texts = {readable_json(edited()),
                                          write_plan(model_, divided, PlanText::kDecisions),
                                          write_plan(model_, plan_, PlanText::kDecisions),
                                          write_plan(model_, stages, PlanText::kDecisions)};
  for (int trial = 0; trial < 5000; ++trial) {
    std::string bad = texts[static_cast<size_t>(trial) % texts.size()];
    bad[random() % bad.size()] = "0123456789-,all{}[]\"e."[random() % 22];
    const std::string why = complaint([&] {
      const Plan plan = read_plan(model_, bad, "p.json");
      EXPECT_THAT(validate(model_, plan), ::testing::IsEmpty());
      EXPECT_EQ(read_plan(model_, write_plan(model_, plan), "p.json"), plan);
    });
    if (!why.empty()) {
      ASSERT_THAT(why, StartsWith("p.json")) << bad;
    }
  }
}

}  // namespace
}  // namespace kerf::partitioner
