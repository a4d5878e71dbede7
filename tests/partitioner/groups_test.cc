// Groups of workers, each in its own way: prices that add up, and searches over them.
#include "partitioner/cuts/groups.h"

#include <gmock/gmock.h>

#include "partitioner/cuts/group_search.h"
#include "partitioner/rewrite.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/random_cut.h"
#include "tests/partitioner/sample_models.h"
#include "tests/partitioner/step_checks.h"
#include "tests/partitioner/wide_models.h"

namespace kerf::partitioner {
namespace {

using testing::request_of;

struct Grouped {
  Model model;
  Plan plan;
};
Grouped grouped(const Model& model, const PlanRequest& request, const Groups& groups) {
  Model rewritten = partitioner::rewritten(model, rewrites_of_groups(model, request, groups));
  Plan plan = assigned_plan(rewritten, request, *hold_everything(),
                            assigned_to_groups(rewritten, request, groups, 0));
  return {std::move(rewritten), std::move(plan)};
}

// What the dearest stage costs.
double price_of(GroupPrices& prices, const Groups& groups) {
  double dearest = 0;
  int begin = 0;
  for (size_t s = 0; s < groups.size(); ++s) {
    dearest = std::max(dearest, prices.price(begin, groups[s].end, groups[s].shape,
                                             groups[s == 0 ? 0 : s - 1].shape));
    begin = groups[s].end;
  }
  return dearest;
}

GroupShape random_shape(Random& random) {
  const int workers = 1 + draw(random, 4);
  return {workers, workers > 1 && draw(random, 2) == 0 ? Way::kSample : Way::kFeature};
}

Groups random_groups(int layers, Random& random) {
  const int first = 1 + draw(random, layers - 2);
  const int second = first + 1 + draw(random, layers - first - 1);
  return {{first, random_shape(random)},
          {second, random_shape(random)},
          {layers, random_shape(random)}};
}

int workers_of(const Groups& groups) {
  int workers = 0;
  for (const Group& group : groups) workers += group.shape.workers;
  return workers;
}

// Which products are pairs depends on where a stage begins, so with them prices are nearly these.
TEST(GroupPrices, OfAChainAreThoseOfThePlan) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    std::vector<int64_t> sizes;
    for (int layer = 0; layer < 7; ++layer) sizes.push_back(6 + draw(random, 300));
    const Model model = make_zoo_model("mlp", {sizes});
    const Groups groups = random_groups(6, random);
    PlanRequest request = request_of(Cut::kHybrid, workers_of(groups), 64, 4);
    request.pairs = false;
    request.speed.link_bytes_per_second = draw(random, 2) == 0 ? 1e8 : 8e9;
    GroupPrices prices(model, request);
    const Plan plan = grouped(model, request, groups).plan;
    EXPECT_NEAR(price_of(prices, groups) / plan.bottleneck, 1, 1e-9) << seed;
  }
}

TEST(Groups, TrainAsOneWorkerDoes) {
  const Groups groups = {{1, {2, Way::kSample}}, {2, {3, Way::kFeature}}};
  for (const Model& model : {make_zoo_model("lenet5-bn"), testing::normalized_images()}) {
    SCOPED_TRACE(model.name());
    const int layers = static_cast<int>(layers_of(model).size());
    Groups all = groups;
    all.back().end = layers;
    const Grouped made = grouped(model, request_of(Cut::kHybrid, 5, 10, 3), all);
    EXPECT_FALSE(made.model.rewrites().empty());
    StepResult got = run(made.model, made.plan);
    StepResult expected = run(model, partitioner::plan_of(model, Cut::kLayer, 1));
    got.values.clear();  // a rewritten model has others
    expected.values.clear();
    expect_close(got, expected, 1e-4F);
  }
}

// Of every way to place two boundaries with two groups in whichever way they may go, by the same
// prices; the third has one worker.
double least_price(GroupPrices& prices, const GroupSet& by_feature) {
  double least = GroupPrices::kNever;
  for (const Way first_way : {Way::kFeature, Way::kSample})
    for (const Way second_way : {Way::kFeature, Way::kSample}) {
      if (first_way == Way::kSample && by_feature[0]) continue;
      if (second_way == Way::kSample && by_feature[1]) continue;
      for (int first = 1; first < 7; ++first)
        for (int second = first + 1; second < 8; ++second) {
          const Groups groups = {{first, {2, first_way}}, {second, {2, second_way}}, {8, {1}}};
          least = std::min(least, price_of(prices, groups));
        }
    }
  return least;
}

TEST(GroupSearch, FindsTheBestBoundaries) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    std::vector<int64_t> sizes;
    for (int layer = 0; layer < 9; ++layer) sizes.push_back(6 + draw(random, 300));
    const Model model = make_zoo_model("mlp", {sizes});
    const PlanRequest request = request_of(Cut::kHybrid, 5, 64, 4);
    GroupPrices prices(model, request);
    for (const unsigned some : {0U, 1U, 2U, 3U, 7U}) {
      const Groups best = best_boundaries(prices, even_groups(5, 3), GroupSet(some));
      for (size_t group = 0; group < best.size(); ++group)
        EXPECT_TRUE(!GroupSet(some)[group] || best[group].shape.way == Way::kFeature) << seed;
      EXPECT_DOUBLE_EQ(price_of(prices, best), least_price(prices, GroupSet(some))) << seed;
    }
  }
}

TEST(GroupSearch, UsesEveryWorkerAndEveryLayerOnce) {
  const Model model = make_zoo_model("lenet5");
  const PlanRequest request = request_of(Cut::kHybrid, 6, 64, 4);
  GroupPrices prices(model, request);
  const auto found = best_groups(prices, 6, 4, 3);
  ASSERT_FALSE(found.empty());
  for (const Groups& groups : found) {
    EXPECT_EQ(workers_of(groups), 6);
    EXPECT_GE(groups.size(), 2U);
    EXPECT_EQ(groups.back().end, prices.layers());
    for (size_t s = 1; s < groups.size(); ++s) EXPECT_LT(groups[s - 1].end, groups[s].end);
  }
}

// Of one way to divide: the sum of all stages, and the dearest.
struct Priced {
  Groups groups;
  double sum = 0;
  double dearest = 0;
};

// Every way to divide layers and workers among groups of both kinds.
class EveryDivision {
 public:
  EveryDivision(GroupPrices& prices, int workers) : prices_(prices) { extend({}, 0, workers); }

  const std::vector<Priced>& all() const { return all_; }

 private:
  void extend(const Priced& made, int begin, int workers) {
    if (begin == prices_.layers() && workers == 0 && made.groups.size() > 1) all_.push_back(made);
    for (int end = begin + 1; end <= prices_.layers(); ++end)
      for (int size = 1; size <= workers; ++size)
        for (const Way way : {Way::kFeature, Way::kSample}) {
          if (size == 1 && way == Way::kSample) continue;
          const GroupShape shape{size, way};
          const GroupShape before = made.groups.empty() ? shape : made.groups.back().shape;
          const double own = prices_.price(begin, end, shape, before);
          if (own >= GroupPrices::kIdle) continue;
          Priced more = made;
          more.groups.push_back({end, shape});
          more.sum += own;
          more.dearest = std::max(more.dearest, own);
          extend(more, end, workers - size);
        }
  }

  GroupPrices& prices_;
  std::vector<Priced> all_;
};

double step_of(const Priced& priced, int micro_batches) {
  return priced.sum + (micro_batches - 1) * priced.dearest;
}

// The least dearest stage is among them, and by sum and dearest the best of those within each of
// the limits that are tried; of replicas alone as well.
TEST(GroupSearch, FindsTheBestGroups) {
  constexpr int kWorkers = 4;
  constexpr int kMicroBatches = 4;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<int64_t> sizes;
    for (int layer = 0; layer < 5; ++layer) sizes.push_back(6 + draw(random, 300));
    const Model model = make_zoo_model("mlp", {sizes});
    PlanRequest request = request_of(Cut::kHybrid, kWorkers, 64, kMicroBatches);
    request.speed.link_bytes_per_second = seed % 2 == 0 ? 1e8 : 8e9;
    GroupPrices prices(model, request);
    const std::vector<Priced> all = EveryDivision(prices, kWorkers).all();
    const auto priced = [&](const Groups& groups) {
      const auto is = [&](const Priced& each) { return each.groups == groups; };
      return *std::find_if(all.begin(), all.end(), is);
    };
    const auto least = [&](const auto& of, const auto& among) {
      double best = GroupPrices::kNever;
      for (const Priced& each : all)
        if (among(each)) best = std::min(best, of(each));
      return best;
    };
    const auto any = [](const Priced&) { return true; };
    const auto dearest_of = [](const Priced& each) { return each.dearest; };
    const double least_dearest = least(dearest_of, any);
    const auto found = best_groups(prices, kWorkers, kMicroBatches, 100);
    double dearest = GroupPrices::kNever;
    for (const Groups& groups : found) dearest = std::min(dearest, priced(groups).dearest);
    EXPECT_DOUBLE_EQ(dearest, least_dearest);
    for (int i = 0; i < 12; ++i) {
      const auto within = [&](const Priced& each) {
        return each.dearest <= least_dearest * (1 + i / 12.0);
      };
      const double sum = least([](const Priced& each) { return each.sum; }, within);
      EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const Groups& groups) {
        return within(priced(groups)) && priced(groups).sum <= sum * (1 + 1e-12);
      })) << i;
    }
    const auto of_replicas = [](const Priced& each) {
      return std::all_of(each.groups.begin(), each.groups.end(), [](const Group& group) {
        return group.shape.workers == 1 || group.shape.way == Way::kSample;
      });
    };
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const Groups& groups) {
      return of_replicas(priced(groups)) &&
             priced(groups).dearest <= least(dearest_of, of_replicas) * (1 + 1e-12);
    }));
    for (size_t i = 0; i < found.size(); ++i)
      for (size_t j = 0; j < i; ++j) EXPECT_NE(found[i], found[j]);
    // The most promising first, and behind them that of replicas.
    const auto few = best_groups(prices, kWorkers, kMicroBatches, 2);
    EXPECT_LE(few.size(), 3U);
    EXPECT_EQ(few[0], found[0]);
    for (size_t i = 1; i + 1 < found.size(); ++i)
      EXPECT_LE(step_of(priced(found[i - 1]), kMicroBatches),
                step_of(priced(found[i]), kMicroBatches) * (1 + 1e-12));
  }
}

// Beyond 1e15 FLOPs, where nobody is idle.
TEST(GroupSearch, LargePricesAreNoIdleWorkers) {
  const Model model = make_zoo_model("mlp", {{2000, 3000, 3000, 2000, 10}});
  PlanRequest request = request_of(Cut::kHybrid, 4, 1 << 26, 4);
  request.minimise = Minimise::kForwardFlops;
  GroupPrices prices(model, request);
  EXPECT_GT(prices.price(0, 2, {2, Way::kFeature}, {2, Way::kFeature}), 1e15);
  EXPECT_FALSE(best_groups(prices, 4, 4, 3).empty());
}

}  // namespace
}  // namespace kerf::partitioner
