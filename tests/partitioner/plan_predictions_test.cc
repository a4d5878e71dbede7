// Predictions that stand in a plan's text are as they were written where the checksum is right;
// else they are what the plan comes to, or the plan is refused.
#include <gmock/gmock.h>

#include <functional>

#include "partitioner/plan_json.h"
#include "tests/partitioner/plan_texts.h"

namespace kerf::partitioner {
namespace {

using ::testing::AllOf;
using testing::complaint;
using ::testing::HasSubstr;
using testing::OneInFlight;
using testing::plan_of;
using testing::request_of;
using testing::sample_plans;
using testing::small_mlp;
using ::testing::StartsWith;

const InFlightOf kOneInFlight = [](const std::string&) { return std::make_unique<OneInFlight>(); };
const InFlightOf kUnknownSchedule = [](const std::string&) { return nullptr; };

class StandingPredictions : public ::testing::Test {
 protected:
  // Of the text without its checksum, and with a change.
  std::string refusal(const std::function<void(Json&)>& change,
                      const InFlightOf& in_flight_of = {}) const {
    Json json = parse_json(write_plan(model_, plan_), "p.json");
    json.erase("checksum");
    change(json);
    return complaint([&] { read_plan(model_, readable_json(json), "p.json", in_flight_of); });
  }
  // A figure of worker 1, `by` more.
  std::string refusal_of(const std::string& figure, double by) const {
    return refusal([&](Json& j) {
      Json& stands = j["workers"][1][figure];
      if (stands.is_number_integer())
        stands = stands.get<int64_t>() + static_cast<int64_t>(by);
      else
        stands = stands.get<double>() + by;
    });
  }

  Model model_ = small_mlp();
  Plan plan_ = plan_of(model_, request_of(Cut::kLayer, 2));
};

TEST_F(StandingPredictions, AreAcceptedWhereTheyAreWhatThePlanComesTo) {
  for (const auto& [model, plan] : sample_plans()) {
    Json json = parse_json(write_plan(model, plan), "p.json");
    json.erase("checksum");
    EXPECT_EQ(read_plan(model, readable_json(json), "p.json"), plan) << model.name();
  }
}

TEST_F(StandingPredictions, AreRefusedByNameWhereTheyDiffer) {
  for (const char* figure : {"weight_bytes", "activation_bytes", "tensor_bytes"})
    for (const double by : {1, 4096})
      EXPECT_THAT(refusal_of(figure, by),
                  AllOf(StartsWith("p.json: "), HasSubstr(format("\"{}\" of worker 1", figure)),
                        HasSubstr("remove \"workers\" and \"bottleneck\"")));
  EXPECT_THAT(refusal_of("forward_flops", 100), HasSubstr("\"forward_flops\" of worker 1"));
  EXPECT_THAT(refusal_of("seconds", 1e-8), HasSubstr("\"seconds\" of worker 1"));
  const int64_t tensors = plan_.workers[1].tensor_bytes.value();
  EXPECT_THAT(refusal_of("tensor_bytes", 64),
              HasSubstr(format("is {}, but this plan comes to {};", tensors + 64, tensors)));
  EXPECT_THAT(refusal([&](Json& j) { j["bottleneck"] = plan_.bottleneck * 1.001; }),
              AllOf(StartsWith("p.json: \"bottleneck\" is "),
                    HasSubstr(format("comes to {};", plan_.bottleneck))));
}

// What kernels take for themselves is the library's of a machine, or a GPU's.
TEST_F(StandingPredictions, AreThoseOfThisMachineAsToKernels) {
  for (const int by : {64, 4096}) {
    Json json = parse_json(write_plan(model_, plan_), "p.json");
    json.erase("checksum");
    Json& peak = json["workers"][1]["peak_bytes"];
    peak = peak.get<int64_t>() + by;
    EXPECT_EQ(read_plan(model_, readable_json(json), "p.json"), plan_);
  }
}

TEST_F(StandingPredictions, OfAPeakAreNoLessThanItsTensors) {
  const auto& worker = plan_.workers[1];
  const auto by = static_cast<double>(*worker.tensor_bytes - worker.peak_bytes);
  EXPECT_EQ(refusal_of("peak_bytes", by), "");
  EXPECT_THAT(refusal_of("peak_bytes", by - 1),
              AllOf(HasSubstr(format("\"peak_bytes\" of worker 1 is {}, but its tensors alone take "
                                     "{};",
                                     *worker.tensor_bytes - 1, *worker.tensor_bytes)),
                    HasSubstr("remove \"workers\"")));
}

// As it was written before a file told what tensors take.
TEST_F(StandingPredictions, ThatTellNothingOfTensorsAreComparedWhole) {
  const auto untold = [](Json& j) {
    for (Json& worker : j["workers"]) worker.erase("tensor_bytes");
  };
  EXPECT_EQ(refusal(untold), "");
  EXPECT_THAT(refusal([&](Json& j) {
                untold(j);
                Json& peak = j["workers"][1]["peak_bytes"];
                peak = peak.get<int64_t>() + 1;
              }),
              HasSubstr("\"peak_bytes\" of worker 1 is"));
}

// Other machines sum up seconds in another order.
TEST_F(StandingPredictions, MayBeRoundedOtherwise) {
  EXPECT_EQ(refusal_of("seconds", plan_.workers[1].seconds * 1e-8), "");
  EXPECT_EQ(refusal_of("forward_flops", plan_.workers[1].forward_flops * 1e-8), "");
  EXPECT_EQ(refusal([&](Json& j) { j["bottleneck"] = plan_.bottleneck * (1 + 1e-8); }), "");
}

TEST_F(StandingPredictions, AreThoseOfTheDecisionsThatStandBesideThem) {
  const auto begin_second = [](Json& json, const std::string& first) {
    json["stages"] = parse_json(format(R"([{{"parts": [0], "first": "fc1"}},
                                           {{"parts": [1], "first": "{}"}}])",
                                       first),
                                "test");
    for (const char* key : {"layouts", "routes"}) json.erase(key);
  };
  Json json = parse_json(write_plan(model_, plan_, PlanText::kDecisions), "p.json");
  begin_second(json, "fc2");
  plan_ = read_plan(model_, readable_json(json), "p.json");
  const auto moved = [&](Json& j) { begin_second(j, "relu1"); };  // as wide: the same messages
  EXPECT_THAT(refusal(moved), AllOf(StartsWith("p.json: \"forward_flops\" of worker 0 is "),
                                    HasSubstr("remove \"workers\"")));
  EXPECT_EQ(refusal([&](Json& j) {
              moved(j);
              for (const char* key : {"workers", "bottleneck"}) j.erase(key);
            }),
            "");
  EXPECT_THAT(refusal([](Json& j) { j["request"]["slots"] = 9; }), HasSubstr("\"tensor_bytes\""));
  EXPECT_THAT(refusal([](Json& j) { j["request"]["objective"] = "forward-flops"; }),
              HasSubstr("\"bottleneck\""));
}

TEST_F(StandingPredictions, AreThoseOfTheSchedule) {
  const auto unchanged = [](Json&) {};
  EXPECT_THAT(refusal(unchanged, kOneInFlight), HasSubstr("\"activation_bytes\" of worker 0"));
  plan_ = std::get<Plan>(make_plan(model_, request_of(Cut::kLayer, 2), OneInFlight()));
  EXPECT_EQ(refusal(unchanged, kOneInFlight), "");
  EXPECT_THAT(refusal(unchanged), HasSubstr("\"activation_bytes\" of worker 0"));
}

TEST_F(StandingPredictions, OfAScheduleThatIsNotKnownAreAcceptedAsToMemoryOnly) {
  plan_ = std::get<Plan>(make_plan(model_, request_of(Cut::kLayer, 2), OneInFlight()));
  EXPECT_EQ(refusal([](Json&) {}, kUnknownSchedule), "");
  EXPECT_THAT(refusal([](Json& j) { j["workers"][0]["seconds"] = 1; }, kUnknownSchedule),
              HasSubstr("\"seconds\" of worker 0 is 1,"));
}

TEST_F(StandingPredictions, BoundNothingAboveTheBottleneck) {
  const double bottleneck = plan_.bottleneck;
  EXPECT_EQ(refusal([&](Json& j) { j["bound"] = 0; }), "");
  EXPECT_EQ(refusal([&](Json& j) { j["bound"] = bottleneck; }), "");
  EXPECT_THAT(refusal([&](Json& j) { j["bound"] = bottleneck * 1.01; }),
              AllOf(StartsWith("p.json: \"bound\" is "), HasSubstr("remove \"bound\"")));
  EXPECT_THAT(refusal([&](Json& j) { j["bound"] = -1; }), HasSubstr("\"bound\""));
}

// A bound may have been left out: a checksum that does not match refuses nothing then, nor vouches.
TEST_F(StandingPredictions, WithoutABoundAreComparedWhereTheChecksumDoesNotMatch) {
  Json json = parse_json(write_plan(model_, plan_), "p.json");
  json.erase("bound");
  EXPECT_EQ(read_plan(model_, readable_json(json), "p.json").workers, plan_.workers);
  json["workers"][0]["tensor_bytes"] = 1;
  EXPECT_THAT(complaint([&] { read_plan(model_, readable_json(json), "p.json"); }),
              HasSubstr("\"tensor_bytes\" of worker 0 is 1,"));
}

// They assumed less than what is added to them: no step vector.
TEST_F(StandingPredictions, OfEarlierVersionsAreAccepted) {
  const auto earlier = [](Json& j) {
    Json routes = Json::array();
    for (const Json& route : j["routes"])
      if (route["value"] != "the step vector") routes.push_back(route);
    j["routes"] = std::move(routes);
    for (Json& worker : j["workers"])
      worker["peak_bytes"] = worker["peak_bytes"].get<int64_t>() - 64;
  };
  const std::vector<Traffic> traffic = predict_traffic(model_, plan_, plan_.batch);
  for (const Route& route : plan_.routes) {
    if (route.value != kStepVector) continue;
    const Traffic& one = traffic[static_cast<size_t>(route.id)];
    WorkerPrediction& from = plan_.workers[static_cast<size_t>(route.from)];
    from.messages -= one.messages;
    from.bytes_out -= one.bytes;
    plan_.workers[static_cast<size_t>(route.to)].bytes_in -= one.bytes;
  }
  EXPECT_EQ(refusal(earlier), "");
}

// Nothing is computed where the checksum vouches for every figure.
TEST_F(StandingPredictions, AreTheChecksumsWhereItIsRight) {
  plan_.workers[0].peak_bytes += 4096;
  plan_.bottleneck *= 2;
  EXPECT_EQ(read_plan(model_, write_plan(model_, plan_), "p.json"), plan_);
}

}  // namespace
}  // namespace kerf::partitioner
