// Plans of random cost graphs beside every division that there is, each priced by plain loops: none
// is better than the bound says, none that is returned is illegal, above its cap or better than the
// best, and few are worse.
//
// KERF_SEEDS=FIRST-LAST in the environment chooses other seeds.
#include <gmock/gmock.h>

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

// Of random graphs: their values have one time to enter and one to leave, and each node holds its
// own.
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
    for (const size_t reader : readers) time[reader] += value.enter;
    if (!readers.empty()) time[stage(value.producer)] += value.leave;
  }
  for (const Held& held : graph.held())
    memory[stage(held.nodes.at(0))] += held.fixed + held.per_micro_batch;
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
  }
  return result;
}

void look_at_plan(const CostGraph& graph, const EveryDivision& every, const GraphPlan& plan,
                  double cap, Tally& tally) {
  const Price price = price_of(graph, plan.stage_of, static_cast<int>(plan.stages.size()));
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

}  // namespace
}  // namespace kerf::partitioner
