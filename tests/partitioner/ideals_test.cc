// Ideals, and what is searched over them: beside every set and every division of small graphs.
#include "partitioner/ideals.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <set>

#include "partitioner/cuts/capped_layers.h"
#include "partitioner/cuts/layer_search.h"
#include "partitioner/given_stages.h"
#include "partitioner/graph_formats.h"
#include "partitioner/graph_plan.h"
#include "partitioner/orders.h"
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

// One heavy node proves the bottleneck without a search; the bytes take one.
TEST(GraphPlan, TellsOfTheFewestBytesOnlyWhereAllWereLookedAt) {
  const std::vector<double> work{1, 2, 20, 1, 3, 1, 2};
  const CostGraph chain = Chain{work, work}.graph();
  GraphRequest request{3, std::nullopt};
  request.slack = 0.1;
  const auto searched = std::get<GraphPlan>(plan_graph(chain, request));
  EXPECT_EQ(searched.bound.value, 20);
  EXPECT_THAT(searched.bound.witness, HasSubstr("; none within 1.1 times it has fewer bytes"));
  request.effort.visits = 1;
  const auto hasty = std::get<GraphPlan>(plan_graph(chain, request));
  EXPECT_EQ(hasty.bound.value, 20);
  EXPECT_EQ(hasty.bound.witness, "c alone");
}

// Stages that share a worker pay nothing among themselves, hold together no more than the cap, and
// the graph of stages has no cycle.
TEST(GraphPlan, SeveralStagesShareAWorker) {
  std::mt19937 random(29);
  int best_there_is = 0;
  int better_than_one = 0;
  int capped = 0;
  constexpr int kRounds = 24;
  for (int round = 0; round < kRounds; ++round) {
    const CostGraph graph = random_graph(random, {.nodes = 7,
                                                  .leaving = round % 2 == 0,
                                                  .memory = true,
                                                  .returns = round % 3 == 0,
                                                  .shared = true});
    GraphRequest request{2, std::nullopt};
    auto one = std::get<GraphPlan>(plan_graph(graph, request));
    if (round % 2 == 1) {  // a cap that binds two stages, one on each worker
      request.memory = static_cast<int64_t>(one.memory()) - 1;
      auto answer = plan_graph(graph, request);
      if (!std::holds_alternative<GraphPlan>(answer)) continue;
      one = std::get<GraphPlan>(std::move(answer));
      ++capped;
    }
    const auto fits = [&](const GraphPlan& plan) {
      return !request.memory || plan.memory() <= static_cast<double>(*request.memory);
    };
    request.stages_per_worker = 2;
    const auto plan = std::get<GraphPlan>(plan_graph(graph, request));
    EXPECT_TRUE(plan.acyclic);
    EXPECT_TRUE(fits(plan));
    EXPECT_LE(plan.bottleneck, one.bottleneck + 1e-9);
    better_than_one += plan.bottleneck < one.bottleneck - 1e-9 ? 1 : 0;
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
          if (held[0] > 2 || held[1] > 2) continue;
          const GraphPlan other = price_division(graph, division);
          if (fits(other)) best = std::min(best, other.bottleneck);
        }
    EXPECT_GE(plan.bottleneck, best - 1e-9);
    best_there_is += plan.bottleneck <= best + 1e-9 ? 1 : 0;
  }
  EXPECT_GE(best_there_is, kRounds - 1);
  EXPECT_GT(better_than_one, 3);
  EXPECT_GT(capped, 6);
}

bool same(double a, double b) { return a == b || std::abs(a - b) <= 1e-9; }

// Of a line every division into segments.
class EverySegmentation {
 public:
  EverySegmentation(const Line& line, const StageLimits& limits) : line_(line), limits_(limits) {}

  // The least bottleneck, or of those up to a bottleneck the fewest bytes.
  double least(double most) const { return least_from(0, 0, most); }

 private:
  double least_from(size_t stage, int begin, double most) const {
    const size_t stages = limits_.device_type.size();
    double least = kNever;
    for (int end = begin + 1; end <= line_.size(); ++end) {
      if ((stage + 1 == stages) != (end == line_.size())) continue;
      if (!may_be(stage, begin, end)) continue;
      const double price = line_.price(limits_.device_type[stage], begin, end);
      if (price > most + 1e-9) continue;
      const double rest = stage + 1 == stages ? 0 : least_from(stage + 1, end, most);
      least =
          std::min(least, most < kNever ? line_.bytes(begin, end) + rest : std::max(price, rest));
    }
    return least;
  }
  bool may_be(size_t stage, int begin, int end) const {
    if (line_.memory(limits_.micro_batches[stage], begin, end) > limits_.memory[stage])
      return false;
    StageRules rules;
    for (int p = begin; limits_.rules != nullptr && p < end; ++p)
      if (!limits_.rules->add(line_.order()[static_cast<size_t>(p)], rules)) return false;
    return limits_.rules == nullptr || rules.worker < 0 || rules.worker == limits_.worker[stage];
  }

  const Line& line_;
  const StageLimits& limits_;
};

// Without any ideals: those of long lines are too many.
TEST(LineSearch, IsExactForItsLine) {
  std::mt19937 random(43);
  int found = 0;
  int none = 0;
  for (int round = 0; round < 200; ++round) {
    const CostGraph graph = random_graph(random, {.nodes = 9,
                                                  .leaving = round % 3 == 0,
                                                  .memory = true,
                                                  .returns = round % 2 == 0,
                                                  .shared = true,
                                                  .hosts = true});
    const Units units = units_of(graph);
    UnitRules rules;
    for (int unit = 0; unit < units.size(); ++unit)
      rules.worker.push_back(random() % 4 == 0 ? static_cast<int>(random() % 3) : -1);
    rules.group.emplace_back(units.size(), -1);
    rules.group[0][2] = 0;
    rules.group[0][5] = 1;
    StageLimits limits{{0, 1, 0}, {2, 1, 1}, {kNever, kNever, kNever}};
    if (round % 4 > 0) limits.memory = {120, 90, 110};
    limits.worker = {0, 1, 2};
    if (round % 5 == 0) limits.rules = &rules;
    for (std::vector<int>& order : topological_orders(units)) {
      const Line line(units, std::move(order));
      const EverySegmentation every(line, limits);
      const LineSearch search(line, limits);
      const double least = every.least(kNever);
      EXPECT_TRUE(same(search.least_bottleneck(0, kNever), least));
      EXPECT_EQ(search.has_division(), least < kNever);
      ++(least < kNever ? found : none);
      for (const double slack : {1.0, 1.3})
        if (least < kNever) {
          EXPECT_NEAR(search.fewest_bytes(slack * least, false).value, every.least(slack * least),
                      1e-9);
        }
    }
  }
  EXPECT_GT(found, 300);
  EXPECT_GT(none, 50);
}

// Divisions of a graph into three stages, each with what it costs on stages' own types of device.
class EveryOrder {
 public:
  explicit EveryOrder(const CostGraph& graph)
      : graph_(graph),
        divisions_(testing::every_division(testing::partings_of(graph), 3, kMostOfGraph)) {}

  using Accept = std::function<bool(const GraphPlan&)>;
  double least(const std::vector<int>& types, const Accept& accept) const {
    double least = kNever;
    for (const auto& stage_of : divisions_) {
      GraphDivision division{testing::nodes_of_stages(stage_of, 3)};
      division.device_types = types;
      const GraphPlan plan = price_division(graph_, division);
      if (accept(plan)) least = std::min(least, plan.bottleneck);
    }
    return least;
  }

 private:
  const CostGraph& graph_;
  std::vector<std::vector<int>> divisions_;
};

bool any(const GraphPlan&) { return true; }

double bottleneck_of(const std::optional<LayerDivision>& division) {
  return division ? division->bottleneck : kNever;
}

// Types of device stand in any order or in the one that is given; what stages may hold, whose units
// they may have and what may not meet in one goes by the stage.
TEST(LayerSearch, KeepsOrdersCapsAndRulesOfStages) {
  std::mt19937 random(41);
  int none = 0;
  int ruled = 0;
  for (int round = 0; round < 40; ++round) {
    const CostGraph graph = random_graph(random, {.nodes = 7,
                                                  .leaving = round % 2 == 0,
                                                  .memory = true,
                                                  .returns = round % 3 == 0,
                                                  .shared = true,
                                                  .close = round % 4 == 0,
                                                  .hosts = true});
    const EveryOrder every(graph);
    StageLimits limits{{0, 0, 1}, {1, 1, 1}, {kNever, kNever, kNever}};
    double least = kNever;
    std::vector<int> types = limits.device_type;
    do least = std::min(least, every.least(types, any));
    while (std::next_permutation(types.begin(), types.end()));
    LayerSearch search(graph, limits);
    EXPECT_NEAR(bottleneck_of(search.best()), least, 1e-9);
    EXPECT_NEAR(search.bound().value, least, 1e-9);

    UnitRules rules;
    limits.worker = {0, 1, 2};
    for (int node = 0; node < graph.size(); ++node)  // a node is a unit
      rules.worker.push_back(node % 3 == 0 ? static_cast<int>(random() % 4) - 1 : -1);
    rules.group.emplace_back(graph.size(), -1);
    rules.group[0][1] = 0;
    rules.group[0][4] = 1;
    const auto kept = [&](const GraphPlan& plan) {
      for (size_t node = 0; node < rules.worker.size(); ++node)
        if (rules.worker[node] >= 0 && rules.worker[node] != plan.stage_of[node]) return false;
      return plan.stage_of[1] != plan.stage_of[4];
    };
    const std::vector<double> caps{50, 1000, 70};
    const auto within = [&](const GraphPlan& plan) {
      for (size_t s = 0; s < caps.size(); ++s)
        if (plan.workers[s].memory > caps[s]) return false;
      return true;
    };
    const auto over = [&](const LayerDivision& division) {
      std::vector<double> result;
      for (size_t s = 0; s < caps.size(); ++s) result.push_back(division.memory[s] - caps[s]);
      return result;
    };
    do {
      limits.device_type = types;
      LayerSearch ordered(graph, limits);
      EXPECT_NEAR(bottleneck_of(ordered.best()), every.least(types, any), 1e-9);
      EXPECT_NEAR(ordered.bound().value, every.least(types, any), 1e-9);
      const double capped = every.least(types, within);
      EXPECT_TRUE(same(bottleneck_of(CappedLayers(ordered, over).best(limits)), capped));
      StageLimits with_rules = limits;
      with_rules.rules = &rules;
      LayerSearch under_rules(graph, with_rules);
      const double allowed = every.least(types, kept);
      EXPECT_TRUE(same(bottleneck_of(under_rules.best()), allowed));
      EXPECT_TRUE(same(under_rules.bound().value, allowed));
      none += capped == kNever || allowed == kNever;
      ruled += allowed < kNever && allowed > every.least(types, any) + 1e-9;
    } while (std::next_permutation(types.begin(), types.end()));
  }
  EXPECT_GT(none, 5);
  EXPECT_GT(ruled, 20);
}

// Against every division: none is no worse in bottleneck, bytes and memory, and better in one.
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
        EXPECT_FALSE(other.bottleneck <= point.bottleneck + 1e-9 &&
                     bytes(other) <= bytes(point) + 1e-9 && other.memory() < point.memory() - 1e-6);
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
