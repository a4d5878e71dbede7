// Ideals, and what is searched over them: beside every set and every division of small graphs.
#include "partitioner/ideals.h"

#include <gmock/gmock.h>

#include <set>

#include "partitioner/given_stages.h"
#include "partitioner/graph_formats.h"
#include "partitioner/graph_plan.h"
#include "tests/partitioner/every_division.h"
#include "tests/partitioner/random_graphs.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using testing::random_graph;

constexpr size_t kMostOfGraph = 20'000;

TEST(Ideals, AreAllSetsThatHoldWhatComesBefore) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const Units units = units_of(random_graph(random, {9, false, false, round % 3 == 0, false}));
    std::set<std::set<int>> closed;
    for (int bits = 0; bits < 1 << units.size(); ++bits) {
      std::set<int> set;
      bool holds = true;
      for (int unit = 0; unit < units.size(); ++unit)
        if ((bits >> unit) & 1) set.insert(unit);
      const auto [begin, end] = boost::edges(units.before);
      for (auto edge = begin; edge != end; ++edge)
        holds = holds && (!set.contains(static_cast<int>(boost::target(*edge, units.before))) ||
                          set.contains(static_cast<int>(boost::source(*edge, units.before))));
      if (holds) closed.insert(set);
    }
    const auto ideals = Ideals::of(units, 1000);
    ASSERT_TRUE(ideals);
    std::set<std::set<int>> found;
    for (int ideal = 0; ideal < ideals->size(); ++ideal) {
      const std::vector<int> members = ideals->units_in(ideal);
      std::set<int> set(members.begin(), members.end());
      for (const Ideals::Step& step : ideals->steps(ideal)) {
        std::set<int> next = set;
        EXPECT_TRUE(next.insert(step.unit).second);
        const std::vector<int> there = ideals->units_in(step.ideal);
        EXPECT_EQ(next, std::set<int>(there.begin(), there.end()));
      }
      EXPECT_TRUE(found.insert(std::move(set)).second);
    }
    EXPECT_EQ(found, closed);
    EXPECT_FALSE(Ideals::of(units, closed.size() - 1)) << "more than were asked for";
  }
}

struct Chain {
  CostGraph graph() const {
    CostFigures figures;
    figures.name = "chain";
    for (size_t node = 0; node < work.size(); ++node)
      figures.nodes.push_back({std::string(1, static_cast<char>('a' + node)), -1, false});
    figures.work.resize(2);
    for (size_t node = 0; node < work.size(); ++node) {
      figures.work[0].push_back({work[node], 0});
      figures.work[1].push_back({on_host[node], 0});
      if (node > 0)
        figures.values.push_back(
            {static_cast<int>(node) - 1, {static_cast<int>(node)}, 1, 1, 0, 0});
    }
    return CostGraph(std::move(figures));
  }
  std::vector<double> work;
  std::vector<double> on_host;
};

TEST(GraphPlan, AHostComesWhereItHelps) {
  const CostGraph chain = Chain{{4, 4, 4}, {10, 5, 10}}.graph();
  GraphRequest request{2, std::nullopt};
  EXPECT_EQ(std::get<GraphPlan>(plan_graph(chain, request)).bottleneck, 8);
  request.hosts = 1;
  const auto plan = std::get<GraphPlan>(plan_graph(chain, request));
  EXPECT_EQ(plan.bottleneck, 5);
  EXPECT_NEAR(plan.bound.value, 5, 1e-9);
  EXPECT_EQ(plan.workers[1].device_type, 1);
  const CostGraph slow = Chain{{4, 4, 4}, {20, 20, 20}}.graph();
  EXPECT_EQ(std::get<GraphPlan>(plan_graph(slow, request)).workers.size(), 2U);
}

// Stages that share a worker pay nothing among themselves, and the graph of stages has no cycle.
TEST(GraphPlan, SeveralStagesShareAWorker) {
  std::mt19937 random(29);
  int best_there_is = 0;
  constexpr int kRounds = 12;
  for (int round = 0; round < kRounds; ++round) {
    const CostGraph graph = random_graph(random, {7, round % 2 == 0, false, false, false});
    GraphRequest request{2, std::nullopt};
    const auto one = std::get<GraphPlan>(plan_graph(graph, request));
    request.stages_per_worker = 2;
    const auto plan = std::get<GraphPlan>(plan_graph(graph, request));
    EXPECT_TRUE(plan.acyclic);
    EXPECT_LE(plan.bottleneck, one.bottleneck + 1e-9);
    for (const GraphWorker& worker : plan.workers) EXPECT_LE(worker.stages.size(), 2U);
    double best = one.bottleneck;
    for (const int stages : {3, 4})
      for (const auto& stage_of :
           testing::every_division(testing::partings_of(graph), stages, kMostOfGraph))
        for (int binding = 0; binding < 1 << stages; ++binding) {
          GraphDivision division{testing::nodes_of_stages(stage_of, stages)};
          std::vector<int> held(2);
          for (int s = 0; s < stages; ++s) {
            division.worker_of.push_back((binding >> s) & 1);
            ++held[static_cast<size_t>(division.worker_of.back())];
          }
          if (held[0] <= 2 && held[1] <= 2)
            best = std::min(best, price_division(graph, division).bottleneck);
        }
    EXPECT_GE(plan.bottleneck, best - 1e-9);
    best_there_is += plan.bottleneck <= best + 1e-9 ? 1 : 0;
  }
  EXPECT_GE(best_there_is, kRounds - 2);
}

// Against every division: none of no more memory has a lower bottleneck or fewer bytes, and no more
// of the other.
TEST(GraphPlan, NothingIsBetterThanAPointOfTheFront) {
  std::mt19937 random(31);
  size_t points = 0;
  for (int round = 0; round < 10; ++round) {
    const CostGraph graph = random_graph(random, {8, round % 2 == 0, false, false, true});
    std::vector<GraphPlan> all;
    for (const auto& stage_of :
         testing::every_division(testing::partings_of(graph), 3, kMostOfGraph))
      all.push_back(price_division(graph, {testing::nodes_of_stages(stage_of, 3)}));
    const auto bytes = [](const GraphPlan& plan) {
      double sum = 0;
      for (const GraphWorker& worker : plan.workers) sum += worker.bytes_in;
      return sum;
    };
    for (const GraphPlan& point : front_of(graph, {3, std::nullopt})) {
      ++points;
      for (const GraphPlan& other : all) {
        if (other.memory() > point.memory() + 1e-9) continue;
        EXPECT_FALSE(other.bottleneck < point.bottleneck - 1e-6 &&
                     bytes(other) <= bytes(point) + 1e-9);
        EXPECT_FALSE(other.bottleneck <= point.bottleneck + 1e-9 &&
                     bytes(other) < bytes(point) - 1e-6);
      }
    }
  }
  EXPECT_GT(points, 20U);
}

TEST(Costs, AreReadAsTheyWereWritten) {
  std::mt19937 random(37);
  for (const bool backward : {false, true}) {
    const CostGraph graph = random_graph(random, {9, true, backward, true, true});
    const std::string text = write_costs(graph);
    const ReadGraph read = read_costs(text, "costs.json");
    EXPECT_EQ(write_costs(read.graph), text);
    EXPECT_EQ(read.graph.size(), graph.size());
    const GraphRequest request{2, std::nullopt};
    if (units_of(graph).size() < 2) continue;
    EXPECT_EQ(std::get<GraphPlan>(plan_graph(read.graph, request)).bottleneck,
              std::get<GraphPlan>(plan_graph(graph, request)).bottleneck);
  }
}

TEST(Costs, RefuseWhatTheyCannotMean) {
  const auto why = [](const std::string& values, const std::string& rest = "") {
    const std::string node = R"(", "forward": [1], "backward": [0]})";
    return complaint([&] {
      read_costs(R"({"name": "g", "unit": "s", "nodes": [{"name": "a)" + node + R"(, {"name": "b)" +
                     node + R"(, {"name": "c)" + node + R"(], "values": [)" + values + "]" + rest +
                     "}",
                 "g.json");
    });
  };
  EXPECT_EQ(why(R"({"producer": 0, "readers": [1, 2], "bytes": 8, "returns": [2, 1, 2]})"), "");
  EXPECT_THAT(why(R"({"producer": 0, "readers": [1, 2], "bytes": 8, "returns": [2, 2]})"),
              HasSubstr("node 1 reads the value, but is not among those that return"));
  EXPECT_THAT(why(R"({"producer": 0, "readers": [1], "returns": [2]})"),
              HasSubstr("node 2 returns a gradient"));
  std::string many = R"({"nodes": [0], "fixed": 1e15})";
  for (int i = 0; i < 9; ++i) many += R"(, {"nodes": [1], "fixed": 1e15})";
  EXPECT_THAT(why("", R"(, "held": [)" + many + "]"), HasSubstr("what it holds comes to 1e+16"));
}

TEST(GivenStages, OfEveryPlanAreSoundAndOfOthersTheFaultIsNamed) {
  const CostGraph chain = Chain{{4, 4, 4}, {1, 1, 1}}.graph();
  const auto why = [&](const std::string& text) {
    return stages_of_names(chain, read_stages(text, "stages.json")).unsound;
  };
  EXPECT_EQ(why(R"({"a": 0, "b": 0, "c": 1})"), "");
  EXPECT_EQ(why(R"({"assignment": {"a": 1, "b": 0, "c": 0}})"), "");
  EXPECT_THAT(why(R"({"a": 0, "b": 0})"), HasSubstr("\"c\" is in no stage"));
  EXPECT_THAT(why(R"({"a": 0, "b": 0, "c": 1, "d": 1})"), HasSubstr("no node \"d\""));
  EXPECT_THAT(why(R"({"a": 0, "b": 2, "c": 2})"), HasSubstr("stage 1 has no node"));
  EXPECT_THAT(why(R"({"a": 0, "b": 1, "c": 0})"), HasSubstr("stages 0 and 1 feed each other"));
  EXPECT_THAT(why(R"({"assignment": 0, "a": 0, "b": 0, "c": 1})"),
              HasSubstr("no node \"assignment\""));
  for (const char* text : {R"([0])", R"({"a": -1})", R"({"a": 0.5})", R"({"a": 99999999999})"})
    EXPECT_THAT(complaint([&] { read_stages(text, "stages.json"); }), HasSubstr("stages.json"));
  GivenStages given = stages_of_names(chain, read_stages(R"({"a": 1, "b": 0, "c": 0})", "s"));
  EXPECT_THAT(in_running_order(chain, given), ::testing::ElementsAre(1, 0));
}

}  // namespace
}  // namespace kerf::partitioner
