// A few bytes of a file may name enormous numbers: a plan for them takes no memory in proportion,
// or is refused before it does.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include "partitioner/homes.h"
#include "runtime/json.h"
#include "tests/partitioner/plan_texts.h"

namespace kerf::partitioner {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::HasSubstr;
using testing::plan_of;
using testing::request_of;
using testing::small_mlp;
using ::testing::StartsWith;

constexpr int64_t kRows = kMostRows;
constexpr int64_t kCounted = kRows / 8;  // of 5 tokens each: as many as kernels count

// Bytes by which `act` makes the process larger than it ever was.
template <class Act>
int64_t growth(const Act& act) {
  const auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return int64_t{usage.ru_maxrss} * 1024;
  };
  const int64_t before = peak();
  act();
  return peak() - before;
}

// Rows of the tensor in the middle are tokens, five to a sample.
Model token_model() {
  Builder b("tokens");
  const ValueId x = b.input("x", {ops::kBatch, 5, 6});
  const ValueId tokens = b.gemm(b.reshape(b.relu(x, "act"), {-1, 6}, "to_tokens"), 4, "fc");
  b.loss(b.reshape(tokens, {-1, 20}, "to_samples"));
  return b.build();
}

PlanRequest by_rows(const std::string& first, const std::string& second) {
  PlanRequest request = request_of(Cut::kFree, 2, kCounted, 1);
  request.shares = format(
      R"({{"kerf_shares": 1, "shares": {{"fc": {{"0": {{"samples": "{}"}}, "1": {{"samples": "{}"}}}}}}}})",
      first, second);
  return request;
}

TEST(EnormousPlan, OfAllRowsThatKernelsCountTakesNoMemoryForThem) {
  const Model model = token_model();
  const int64_t half = kCounted / 2 * 5;
  const auto make_and_read = [&] {
    const Plan plan =
        plan_of(model, by_rows(format("0-{}", half - 1), format("{}-{}", half, 2 * half - 1)));
    for (const PlanText form : {PlanText::kWhole, PlanText::kDecisions}) {
      const Plan back = read_plan(model, write_plan(model, plan, form), "p.json");
      EXPECT_EQ(back.layouts, plan.layouts);
      EXPECT_EQ(back.workers, plan.workers);
    }
  };
  EXPECT_LT(growth(make_and_read), 64 << 20);
}

TEST(EnormousPlan, ThatTakesAStretchOfEachRowIsRefused) {
  const Model model = token_model();
  PlanRequest request = request_of(Cut::kFree, 2, kRows, 1);
  request.shares = R"({"kerf_shares": 1, "shares": {
      "act": {"0": {"axis 1": "0-1"}, "1": {"axis 1": "2-4"}},
      "to_tokens": {"0": {"axis 1": "0-1"}, "1": {"axis 1": "2-4"}}}})";
  EXPECT_LT(growth([&] {
              EXPECT_THAT(complaint([&] { plan_of(model, request); }), HasSubstr("stretches"));
            }),
            64 << 20);
}

TEST(EnormousPlan, OfPebibytesIsReadAsItWasWritten) {
  const Model model = make_zoo_model("gpt");
  const Plan plan = plan_of(model, request_of(Cut::kLayer, 2, int64_t{1} << 29, 2048));
  EXPECT_GT(plan.workers[0].activation_bytes, int64_t{1} << 50);
  EXPECT_EQ(read_plan(model, write_plan(model, plan), "p.json"), plan);
}

TEST(EnormousPlan, OfMoreMicroBatchesThanAnyoneHasIsRefused) {
  const Model model = small_mlp();
  Json json = parse_json(
      write_plan(model, plan_of(model, request_of(Cut::kLayer, 2)), PlanText::kDecisions), "p");
  json["batch"] = kRows;
  json["micro_batches"] = kRows - 1;
  EXPECT_LT(growth([&] {
              EXPECT_THAT(complaint([&] { read_plan(model, json_text(json), "p.json"); }),
                          AllOf(StartsWith("p.json: "), HasSubstr("micro-batches")));
            }),
            64 << 20);
}

TEST(EnormousPlan, WithRowsBeyondItsMicroBatchIsRefusedWhereTheyStand) {
  const Model model = token_model();
  const std::string rows =
      R"([{"part": 0, "box": ["0-1999999999", "all"]}, {"part": 1, "box": ["2000000000", "all"]}])";
  for (const char* value : {"fc.output", "to_tokens.output"}) {
    Json json = parse_json(
        write_plan(model, plan_of(model, request_of(Cut::kLayer, 2)), PlanText::kDecisions), "p");
    json["layouts"][value] = parse_json(rows, "test");
    EXPECT_THAT(complaint([&] { read_plan(model, json_text(json), "p.json"); }),
                AllOf(StartsWith(format("p.json: layouts.{}: part 0 holds 0-1999999999", value)),
                      HasSubstr("end at 39")));
  }
}

// One stage of so many parts: the results of each product go from each of them to each.
std::string complaint_of_parts(const Model& model, int parts) {
  Json json = parse_json(write_plan(model, plan_of(model, request_of(Cut::kFeature, 2, 2048, 2)),
                                    PlanText::kDecisions),
                         "p");
  json["binding"] = Json::array();
  json["stages"][0]["parts"] = Json::array();
  for (int part = 0; part < parts; ++part) {
    json["binding"].push_back(part % kMostWorkers);
    json["stages"][0]["parts"].push_back(part);
  }
  return complaint([&] { read_plan(model, json_text(json), "p.json"); });
}

TEST(EnormousPlan, OfMoreRoutesThanMemoryHoldsIsRefused) {
  const Model model = make_zoo_model("mlp", {{16, 1024, 1024, 1024, 1024, 1024, 1024, 10}});
  EXPECT_LT(growth([&] {
              EXPECT_THAT(complaint_of_parts(model, kMostWorkers),
                          AllOf(StartsWith("p.json: "), HasSubstr("more than 4194304 routes")));
            }),
            512 << 20);
  EXPECT_EQ(complaint_of_parts(model, kMostWorkers + 1),
            "p.json: stages[0].parts: a stage has at most 1024 parts");
}

TEST(EnormousPlan, AskedForEndlessTurnsIsRefusedWhereItSaysSo) {
  const Model model = small_mlp();
  Json json = parse_json(
      write_plan(model, plan_of(model, request_of(Cut::kLayer, 2)), PlanText::kDecisions), "p");
  for (const auto& [steering, place] :
       {std::pair(R"({"stages_per_worker": 2000000000})", "p.json: request.steering: "),
        {R"({"places": [{"nodes": "fc1", "worker": 1024}]})", "p.json: request.steering.places: "},
        {R"({"slack": -1})", "p.json: request.steering: "},
        {R"({"slack": 101})", "p.json: request.steering: \"slack\" is not within 0 and 100"}}) {
    json["request"]["steering"] = parse_json(steering, "test");
    EXPECT_THAT(complaint([&] { read_plan(model, json_text(json), "p.json"); }), StartsWith(place));
  }
}

TEST(EnormousPlan, DividesAnAxisByItsRanges) {
  const ops::Box all{{ops::IndexSet({{0, kRows / 4}, {kRows / 2, kRows}})}};
  std::vector<ops::Box> parts;
  EXPECT_LT(growth([&] { parts = divide_evenly(all, {kRows}, 0, 3); }), 1 << 20);
  EXPECT_EQ(parts[0].axes[0], ops::IndexSet::range(0, kRows / 4));
  EXPECT_EQ(parts[1].axes[0], ops::IndexSet::range(kRows / 2, kRows / 4 * 3));
  EXPECT_EQ(parts[2].axes[0], ops::IndexSet::range(kRows / 4 * 3, kRows));
}

}  // namespace
}  // namespace kerf::partitioner
