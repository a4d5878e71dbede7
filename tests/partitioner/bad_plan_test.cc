// Texts that are no sound plan for the model: each is refused with one error that names file and
// place. Nothing that a file may hold crashes the reader.
#include <gmock/gmock.h>

#include <random>

#include "partitioner/plan_json.h"
#include "tests/partitioner/plan_texts.h"

namespace kerf::partitioner {
namespace {

using testing::complaint;
using testing::divided_plan;
using ::testing::HasSubstr;
using testing::kFollows;
using testing::plan_of;
using testing::request_of;
using testing::skip_model;
using testing::small_mlp;
using ::testing::StartsWith;

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
  EXPECT_THAT(refusal(more), HasSubstr("no member \"extra\""));
  more = whole;
  more["stages"][0]["colour"] = "red";
  EXPECT_THAT(refusal(more), HasSubstr("p.json: stages[0]: there is no member \"colour\""));
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
  EXPECT_THAT(
      wrong([](Json& j) { j["micro_batches"] = 31, j.erase("layouts"), j.erase("divisions"); }),
      HasSubstr("31 micro-batches"));
  EXPECT_THAT(wrong([](Json& j) { j["binding"] = {0, 4096}; }), HasSubstr("worker 4096"));
  EXPECT_THAT(wrong([](Json& j) { j["binding"] = {0, -1}; }), HasSubstr("binding"));
  EXPECT_THAT(wrong([](Json& j) { j["stages"][0]["nodes"][0] = "fc9"; }), HasSubstr("fc9"));
  EXPECT_THAT(wrong([](Json& j) { j["stages"][0]["nodes"].erase(0); }), HasSubstr("fc1"));
  EXPECT_THAT(wrong([](Json& j) { j["stages"][0]["first"] = "fc1"; }),
              HasSubstr("p.json: stages[0]: there is no member \"nodes\""));
  EXPECT_THAT(wrong([](Json& j) { j["cut"] = "free", j.erase("layouts"); }),
              HasSubstr("\"fc1.output\""));
  EXPECT_THAT(wrong([](Json& j) { j["request"]["slots"] = 0; }), HasSubstr("p.json: request"));
  EXPECT_THAT(wrong([](Json& j) { j["request"]["slots"] = 1 << 30; }), HasSubstr("at most"));
  EXPECT_THAT(wrong([](Json& j) { j["request"]["mirrored"] = j["request"]["exported"] = true; }),
              HasSubstr("p.json: request: \"exported\""));
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

TEST_F(BadPlan, WithMicroBatchesThatHaveNoSuchRows) {
  const auto wrong = [&](const std::string& sizes) {
    Json json = edited();
    json["micro_batches"] = parse_json(sizes, "test");
    const std::string of_whole = refusal(json);
    for (const std::string& key : kFollows) json.erase(key);
    EXPECT_EQ(refusal(json), of_whole) << sizes;
    return of_whole;
  };
  const std::string place = "p.json: micro_batches: ";
  EXPECT_EQ(wrong("[]"), place + "there is none");
  for (const char* none :
       {"[10, 0, 20]", "[10, -5, 25]", "[9223372036854775807, 1]", "[-9223372036854775808, 1, 30]"})
    EXPECT_THAT(wrong(none), ::testing::AllOf(StartsWith(place), HasSubstr("not within 1 and")));
  for (const char* none : {"[\"30\"]", "[15, 15.0]", "[null]", "[[30]]", "[true, 29]"})
    EXPECT_EQ(wrong(none), place + "must be an array of integers");
  EXPECT_EQ(wrong("[10, 10, 11]"), place + "the micro-batches have 31 rows, but the step has 30");
  EXPECT_EQ(wrong("[2147483648, 2147483648]"),
            place + "the micro-batches have 4294967296 rows, but the step has 30");
  EXPECT_THAT(wrong("{\"0\": 30}"), StartsWith("p.json: \"micro_batches\""));
  std::string many = "[1";
  for (int i = 0; i < kMostMicroBatches; ++i) many += ",1";
  EXPECT_EQ(wrong(many + "]"), place + "65537 micro-batches, which are more than 65536");
}

TEST_F(BadPlan, WithDivisionsThatAreNone) {
  const auto wrong = [&](const std::string& divisions) {
    Json json = edited();
    for (const char* key : {"layouts", "routes", "workers", "bottleneck", "bound"}) json.erase(key);
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
  EXPECT_THAT(fc1("[]"), StartsWith("p.json: divisions.fc1: no part computes any of node fc1; "));
  EXPECT_THAT(fc1("[5]"), StartsWith("p.json: divisions.fc1: must be an object"));
  EXPECT_THAT(fc1(R"([{"part": 0}])"), StartsWith("p.json: divisions.fc1: \"box\""));
  EXPECT_THAT(fc1(R"([{"part": -1, "box": "all"}])"),
              StartsWith("p.json: divisions.fc1: \"part\""));
  EXPECT_THAT(fc1(R"([{"part": 0, "box": "all", "why": 1}])"),
              StartsWith("p.json: divisions.fc1: there is no member \"why\""));
  EXPECT_THAT(fc1(R"([{"part": 0, "box": "all", "partial": true}])"),
              StartsWith("p.json: divisions.fc1: there is no member \"partial\""));
  EXPECT_THAT(fc1(R"([{"part": 0, "box": "all", "slices": ["0-3"]}])"),
              StartsWith("p.json: divisions.fc1: there is no member \"slices\""));
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
  json["workers"][0]["tensor_bytes"] = 1;
  EXPECT_THAT(refusal(json), HasSubstr("remove the line \"checksum\""));
  json.erase("checksum");
  EXPECT_THAT(refusal(json), HasSubstr("remove \"workers\""));
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
