// Plans of random cost graphs beside every division that there is, each priced by plain loops: none
// is better than the bound says, none that is returned is illegal, above its cap or better than the
// best, and few are worse.
//
// KERF_SEEDS=FIRST-LAST in the environment chooses other seeds.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "partitioner/graph_plan.h"
#include "runtime/error.h"
#include "tests/partitioner/every_division.h"
#include "tests/partitioner/random_graphs.h"
#include "tests/support/errors.h"
#include "tests/support/seeds.h"

namespace kerf::partitioner {
namespace {

using testing::GraphKinds;
using testing::Tallies;
using testing::Tally;

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;
constexpr size_t kMostDivisions = 10'000;

struct Price {
  double bottleneck = 0;
  double memory = 0;  // of the fullest stage
};

// Of random graphs. A stage returns what it has of a gradient in each run of its readers.
Price price_of(const CostGraph& graph, const std::vector<int>& stage_of, int stages) {
  std::vector<double> time(static_cast<size_t>(stages));
  std::vector<double> memory(static_cast<size_t>(stages));
  const auto stage = [&](int node) {
    return static_cast<size_t>(stage_of[static_cast<size_t>(node)]);
  };
  for (int node = 0; node < graph.size(); ++node)
    time[stage(node)] += graph.work(0, node).forward + graph.work(0, node).backward;
  for (const CostValue& value : graph.values()) {
    std::set<size_t> readers;
    for (const int reader : value.readers) readers.insert(stage(reader));
    readers.erase(stage(value.producer));
    for (const size_t reader : readers) {
      // What comes behind an earlier stage's summand, or the maker's, leaves by itself.
      const auto is_earlier = [&](int node) {
        return stage(node) < reader || stage(node) == stage(value.producer);
      };
      const auto own = [&](int node) { return stage(node) == reader; };
      const auto last = std::find_if(value.returns.rbegin(), value.returns.rend(), is_earlier);
      const auto apart = std::count_if(last, value.returns.rend(), own);
      const bool together = std::any_of(value.returns.rbegin(), last, own);
      const auto tensors = static_cast<double>(apart + (together ? 1 : 0));
      time[reader] += value.enter + std::max(0.0, tensors - 1) * value.returning;
    }
    if (!readers.empty()) time[stage(value.producer)] += value.leave;
  }
  for (const Held& held : graph.held()) {
    std::set<size_t> holders;
    for (const int node : held.nodes) holders.insert(stage(node));
    for (const size_t holder : holders) memory[holder] += held.fixed + held.per_micro_batch;
  }
  return {*std::max_element(time.begin(), time.end()),
          *std::max_element(memory.begin(), memory.end())};
}

class EveryDivision {
 public:
  EveryDivision(const CostGraph& graph, int stages) {
    for (const auto& stage_of :
         testing::every_division(testing::partings_of(graph), stages, kMostDivisions)) {
      all_.push_back(price_of(graph, stage_of, stages));
      stages_.insert(stage_of);
    }
    EXPECT_LT(all_.size(), kMostDivisions);
  }

  const std::vector<Price>& all() const { return all_; }
  bool has(const std::vector<int>& stage_of) const { return stages_.contains(stage_of); }
  double best(double memory = kNone) const {
    double best = kNone;
    for (const Price& each : all_)
      if (each.memory <= memory) best = std::min(best, each.bottleneck);
    return best;
  }
  double least_memory() const {
    double least = kNone;
    for (const Price& each : all_) least = std::min(least, each.memory);
    return least;
  }

 private:
  std::vector<Price> all_;
  std::set<std::vector<int>> stages_;
};

// Where nodes of one colour lie at random in both halves, the planner chooses which way the
// backward half runs: another problem.
std::vector<GraphKinds> kinds() {
  std::vector<GraphKinds> result;
  for (const bool leaving : {false, true}) {
    result.push_back({8, leaving, false, false, true});
    result.push_back({8, leaving, false, true, true});
    result.push_back({6, leaving, true, false, true});
    result.push_back({.nodes = 7,
                      .leaving = leaving,
                      .memory = true,
                      .returns = true,
                      .shared = true,
                      .close = true});
    result.push_back({.nodes = 7,
                      .leaving = leaving,
                      .colours = true,
                      .memory = true,
                      .returns = true,
                      .shared = true});
  }
  return result;
}

void look_at_plan(const CostGraph& graph, const EveryDivision& every, const GraphPlan& plan,
                  double cap, Tally& tally) {
  const Price price = price_of(graph, plan.stage_of, static_cast<int>(plan.workers.size()));
  EXPECT_TRUE(every.has(plan.stage_of)) << "a legal division";
  EXPECT_LE(price.memory, cap);
  EXPECT_NEAR(plan.bottleneck, price.bottleneck, kRounding);
  EXPECT_GT(plan.bound.value, 0);
  const double best = every.best(cap);
  EXPECT_NEAR(plan.bound.value, best, kRounding);
  EXPECT_GE(plan.bottleneck, best - kRounding);
  tally.add_plan(plan.bottleneck, best);
}

void look_at_refusal(const EveryDivision& every, const Infeasible& no, double cap, Tally& tally) {
  const double least = every.least_memory();
  EXPECT_EQ(no.cap, cap);
  EXPECT_GE(static_cast<double>(no.cap + no.over), least) << "nothing fits into what it advises";
  tally.add_refusal(cap, static_cast<double>(no.cap + no.over), std::ceil(least));
}

void look_at(std::mt19937& random, Tallies& tallies) {
  for (const GraphKinds& kind : kinds())
    for (const int workers : {1, 2, 3}) {
      const CostGraph graph = random_graph(random, kind);
      const EveryDivision every(graph, workers);
      const auto plan = [&](std::optional<int64_t> cap) {
        return plan_graph(graph, {workers, cap});
      };
      if (every.all().empty()) {
        const auto error = tests::error_of([&] { (void)plan({}); });
        ASSERT_TRUE(error) << "no division, but a plan";
        EXPECT_EQ(error->code(), ErrorCode::kInfeasible);
        continue;
      }
      look_at_plan(graph, every, std::get<GraphPlan>(plan({})), kNone, tallies.free);
      const auto least = static_cast<int64_t>(std::ceil(every.least_memory()));
      for (const int64_t cap : {least - 1, least, least + 1, least * 5 / 4, least * 3 / 2}) {
        if (cap < 1) continue;
        const auto answer = plan(cap);
        const auto limit = static_cast<double>(cap);
        if (const auto* found = std::get_if<GraphPlan>(&answer))
          look_at_plan(graph, every, *found, limit, tallies.capped);
        else
          look_at_refusal(every, std::get<Infeasible>(answer), limit, tallies.capped);
      }
    }
}

class GraphBounds : public ::testing::TestWithParam<int> {};

TEST_P(GraphBounds, HoldBesideEveryDivision) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(GetParam()));
  Tallies tallies;
  look_at(random, tallies);
  EXPECT_GT(tallies.free.plans, 0);
  EXPECT_GT(tallies.capped.plans, 0);
  EXPECT_GT(tallies.capped.refusals, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, GraphBounds, tests::seeds(1, 10));

// Their ideals are few, so that nothing is better, and nothing is refused that fits.
TEST(GraphBounds, AreTheBest) {
  std::mt19937 random(1);
  Tallies tallies;
  for (int round = 0; round < 20; ++round) look_at(random, tallies);
  EXPECT_EQ(tallies.free.best, tallies.free.plans);
  EXPECT_EQ(tallies.capped.best, tallies.capped.plans);
  EXPECT_EQ(tallies.capped.mistaken, 0);
  EXPECT_LE(tallies.capped.most, 1 + kRounding);
}

bool keeps_colours_together(const CostGraph& graph, const std::vector<int>& stage_of) {
  std::map<int, int> stage_of_colour;
  for (int node = 0; node < graph.size(); ++node) {
    const int stage = stage_of[static_cast<size_t>(node)];
    const int colour = graph.node(node).colour;
    if (colour >= 0 && stage_of_colour.try_emplace(colour, stage).first->second != stage)
      return false;
  }
  return true;
}

// All assignments of nodes to stages whose halves have no cycle, each by itself.
std::vector<std::vector<int>> sound_divisions(const CostGraph& graph, int stages) {
  std::vector<std::vector<int>> result;
  std::vector<int> stage_of(static_cast<size_t>(graph.size()));
  for (;;) {
    const std::set<int> used(stage_of.begin(), stage_of.end());
    if (static_cast<int>(used.size()) == stages && keeps_colours_together(graph, stage_of) &&
        has_acyclic_stages(graph, stage_of, stages))
      result.push_back(stage_of);
    size_t digit = 0;
    while (digit < stage_of.size() && ++stage_of[digit] == stages) stage_of[digit++] = 0;
    if (digit == stage_of.size()) return result;
  }
}

// No cycle in both halves together, the edges of the backward one turned round or not.
bool has_order(const CostGraph& graph, const std::vector<int>& stage_of, int stages, bool turned) {
  Edges edges;
  for (const CostValue& value : graph.values())
    for (const int reader : value.readers) {
      if (graph.node(value.producer).backward != graph.node(reader).backward) continue;
      const int from = stage_of[static_cast<size_t>(value.producer)];
      const int to = stage_of[static_cast<size_t>(reader)];
      if (from == to) continue;
      if (turned && graph.node(reader).backward)
        edges.emplace_back(to, from);
      else
        edges.emplace_back(from, to);
    }
  return is_acyclic(stages, edges);
}
bool runs_against(const CostGraph& graph, const std::vector<int>& stage_of, int stages) {
  return has_order(graph, stage_of, stages, true);
}
bool runs_along(const CostGraph& graph, const std::vector<int>& stage_of, int stages) {
  return has_order(graph, stage_of, stages, false);
}

// Bottlenecks of all sound divisions.
struct Least {
  double of_all = kNone;
  double of_ways = kNone;  // in which the backward half runs against the forward one, or along
};

Least least_of(const CostGraph& graph, int workers, double memory = kNone) {
  Least least;
  for (const auto& stage_of : sound_divisions(graph, workers)) {
    const auto [price, held] = price_of(graph, stage_of, workers);
    if (held > memory) continue;
    least.of_all = std::min(least.of_all, price);
    if (runs_against(graph, stage_of, workers) || runs_along(graph, stage_of, workers))
      least.of_ways = std::min(least.of_ways, price);
  }
  return least;
}

// A backward half of its own may run against the forward one, along with it, or neither: of so few
// divisions the best is found whichever way it runs, and proved to be that.
TEST(GraphBounds, HoldWhicheverWayTheBackwardHalfRuns) {
  std::mt19937 random(11);
  int along = 0;
  for (int round = 0; round < 60; ++round) {
    const CostGraph graph = testing::random_graph(
        random, {.nodes = 4, .backward = true, .memory = true, .loose = true});
    for (const int workers : {2, 3}) {
      const double best = least_of(graph, workers).of_all;
      const auto plan = std::get<GraphPlan>(plan_graph(graph, {workers, std::nullopt}));
      EXPECT_NEAR(plan.bottleneck, best, kRounding);
      EXPECT_NEAR(plan.bound.value, best, kRounding);
      along += !runs_against(graph, plan.stage_of, workers);
    }
  }
  EXPECT_GT(along, 0) << "some plans run along, which one way alone would not find";
}

// Of these two halves, which are tied at two nodes, the best division within the cap has an order
// of stages for each.
TEST(GraphBounds, AreOfHalvesThatHaveAnOrderEach) {
  CostFigures figures;
  figures.name = "tied at two nodes";
  figures.nodes = {{"f0"}, {"b0", -1, true}, {"f1", 1}, {"b1", 1, true},
                   {"f2"}, {"b2", -1, true}, {"f3", 3}, {"b3", 3, true}};
  figures.work = {{{2, 0}, {0, 2}, {3, 0}, {0, 3}, {2, 0}, {0, 2}, {5, 0}, {0, 3}}};
  const auto sent = [&](int producer, std::vector<int> readers, double cost) {
    CostValue value;
    value.producer = producer;
    value.readers = std::move(readers);
    value.enter = value.leave = cost;
    figures.values.push_back(std::move(value));
  };
  sent(0, {1, 2, 4}, 0.5);
  sent(2, {3, 6}, 0);
  sent(3, {1}, 2);
  sent(4, {5}, 1);
  sent(5, {1}, 0);
  sent(7, {3}, 1);
  for (const auto& [node, bytes] : std::map<int, double>{
           {0, 50}, {1, 50}, {2, 10}, {3, 10}, {4, 10}, {5, 50}, {6, 10}, {7, 50}})
    figures.held.push_back({{node}, bytes, 0});
  const CostGraph graph(std::move(figures));
  constexpr int64_t kCap = 144;
  const Least least = least_of(graph, 3, kCap);
  ASSERT_LT(least.of_all, least.of_ways);
  const auto plan = std::get<GraphPlan>(plan_graph(graph, {3, kCap}));
  EXPECT_NEAR(plan.bottleneck, least.of_all, kRounding);
  EXPECT_NEAR(plan.bound.value, least.of_all, kRounding);
}

// The example of a bound that was above the plan: both halves may run along.
TEST(GraphBounds, AreOfEveryWayThatIsSound) {
  CostFigures figures;
  figures.name = "two halves";
  figures.nodes = {{"f1"}, {"f2"}, {"b1", -1, true}, {"b2", -1, true}};
  figures.work = {{{4, 0}, {2, 0}, {0, 1}, {0, 3}}};
  figures.values = {{0, {1}}, {2, {3}}};
  const CostGraph graph(std::move(figures));
  const auto plan = std::get<GraphPlan>(plan_graph(graph, {2, std::nullopt}));
  EXPECT_EQ(plan.bottleneck, 5);
  EXPECT_EQ(plan.bound.value, 5);
  const GivenStages given{{0, 1, 0, 1}, 2, {}};
  EXPECT_EQ(given_plan(graph, given, {}).bound.value, 5);
}

// A host stands where it lowers the bottleneck, or is left out.
TEST(GraphBounds, HoldWithAHostAnywhere) {
  std::mt19937 random(13);
  int used = 0;
  for (int round = 0; round < 20; ++round) {
    const CostGraph graph =
        testing::random_graph(random, {.nodes = 7, .memory = true, .returns = true, .hosts = true});
    double best = EveryDivision(graph, 2).best();
    for (const auto& stage_of :
         testing::every_division(testing::partings_of(graph), 3, kMostDivisions))
      for (int host = 0; host < 3; ++host) {
        GraphDivision division{testing::nodes_of_stages(stage_of, 3)};
        division.device_types.assign(3, 0);
        division.device_types[static_cast<size_t>(host)] = 1;
        best = std::min(best, price_division(graph, division).bottleneck);
      }
    GraphRequest request{2, std::nullopt};
    request.hosts = 1;
    const auto plan = std::get<GraphPlan>(plan_graph(graph, request));
    EXPECT_NEAR(plan.bottleneck, best, kRounding);
    EXPECT_NEAR(plan.bound.value, best, kRounding);
    used += plan.workers.size() == 3;
  }
  EXPECT_GT(used, 3);
}

}  // namespace
}  // namespace kerf::partitioner
