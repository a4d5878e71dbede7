// What a bench of schedules concludes from their times.
#include "apps/report/schedule_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kerf::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

BenchedSchedule ran(const std::string& name, double simulated, std::vector<double> steps) {
  return {.name = name, .simulated_seconds = simulated, .measured_steps = std::move(steps)};
}

TEST(ScheduleBench, TheMedianStepCounts) {
  EXPECT_EQ(ran("a", 1, {3, 1, 9}).measured_seconds(), 3);
  EXPECT_EQ(ran("a", 1, {4, 1, 9, 2}).measured_seconds(), 3);
  EXPECT_EQ(ran("a", 1, {}).measured_seconds(), std::nullopt);
}

TEST(ScheduleBench, OnlyWhatIsSimulatedApartHasAnOrder) {
  EXPECT_THAT(wrong_order({ran("a", 1, {1.1}), ran("b", 1.02, {1}), ran("c", 2, {3})}), IsEmpty());
  EXPECT_THAT(wrong_order({ran("a", 1, {1.1}), ran("b", 1.04, {1})}), ElementsAre(Pair("a", "b")));
  EXPECT_THAT(wrong_order({ran("a", 1, {1}), ran("b", 1.04, {1})}), ElementsAre(Pair("a", "b")))
      << "a tie is no order";
  EXPECT_THAT(wrong_order({ran("a", 1, {}), ran("b", 2, {1})}), IsEmpty()) << "it did not run";
}

TEST(ScheduleBench, ByTimeAndWhatDidNotRunLast) {
  std::vector<BenchedSchedule> all{
      ran("slow", 1, {3}), ran("simulated", 0.5, {}), {.name = "neither"}, ran("fast", 2, {1})};
  sort_by_time(all);
  std::vector<std::string> names;
  for (const BenchedSchedule& each : all) names.push_back(each.name);
  EXPECT_THAT(names, ElementsAre("fast", "slow", "simulated", "neither"));
}

TEST(ScheduleBench, ContradictionsAreMarkedAndReasonsTold) {
  ScheduleBench bench{.model = "m", .data = "d", .workers = 2, .batch = 8, .steps = 1};
  bench.own = {ran("a", 1, {1.2}), ran("b", 1.1, {1})};
  bench.own.push_back({.name = "c", .why_not = "no run does that"});
  const std::string text = text_of(bench, false);
  EXPECT_THAT(text, HasSubstr("a *"));
  EXPECT_THAT(text, HasSubstr("* a was simulated to take less than b, and did not\n"));
  EXPECT_THAT(text, HasSubstr("c: no run does that\n"));
  const Json json = to_json(bench);
  EXPECT_EQ(json["own_memory"]["wrong_order"].dump(), R"([["a","b"]])");
  EXPECT_EQ(json["own_memory"]["schedules"][0]["measured_to_simulated"], 1.2);
  EXPECT_TRUE(json["own_memory"]["schedules"][2]["simulated_seconds"].is_null());
}

}  // namespace
}  // namespace kerf::apps
