// Features that are dealt out: every unit to one worker, by a pattern or by the speeds of devices.
#include "partitioner/cuts/feature_patterns.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "partitioner/cost.h"
#include "tests/partitioner/steered_plans.h"

namespace kerf::partitioner {
namespace {

using testing::free_request;
using testing::made;
using testing::small_mlp;
using testing::with_speeds;

TEST(FeaturePatterns, EveryUnitGoesToOneWorker) {
  for (const int64_t units : {1, 2, 7, 10, 64})
    for (const int workers : {1, 2, 3, 5}) {
      std::vector<std::vector<ops::IndexSet>> all;
      for (const int64_t block : {1, 2, 3, 100})
        all.push_back(block_cyclic_sets(units, workers, block));
      std::vector<double> weights;
      for (int worker = 0; worker < workers; ++worker) weights.push_back(1 << worker);
      all.push_back(proportional_sets(units, weights));
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (int worker = 0; worker < workers; ++worker)
        EXPECT_LT(
            std::abs(static_cast<double>(all.back()[static_cast<size_t>(worker)].size(units)) -
                     static_cast<double>(units) * weights[static_cast<size_t>(worker)] / sum),
            1);
      for (const auto& sets : all) {
        std::vector<int> owners(static_cast<size_t>(units));
        for (const ops::IndexSet& set : sets)
          for (const ops::Range& range :
               set.empty() ? std::vector<ops::Range>{} : set.ranges(units))
            for (int64_t unit = range.begin; unit < range.end; ++unit)
              ++owners[static_cast<size_t>(unit)];
        EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), units);
      }
    }
  EXPECT_EQ(ops::to_string(block_cyclic_sets(10, 4, 2)[0]), "0-1,8-9");
}

PlanRequest request_of_speeds_124(Minimise minimise, const std::string& pattern) {
  PlanRequest request = free_request(3);
  request.batch = 128;
  request.micro_batches = 8;
  request.minimise = minimise;
  request.speed.capacities = with_speeds({1, 2, 4});
  request.steering.pattern = pattern;
  return request;
}

// Within 1.02 of total work over total speed.
TEST(FeaturePatterns, FreeIsInProportionToSpeeds) {
  const Model model = make_zoo_model("mlp");
  double flops = 0;
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const ops::Box whole = whole_division(model, node, 0).shares[0].box;
    flops += 8 * node_cost(model, node, whole, 16, 16).work.forward_flops;
  }
  for (const auto& [minimise, pattern] :
       {std::pair(Minimise::kForwardFlops, ""), std::pair(Minimise::kForwardFlops, "proportional"),
        std::pair(Minimise::kTime, "proportional")}) {
    const PlanRequest request = request_of_speeds_124(minimise, pattern);
    const Plan plan = made(model, request);
    for (const WorkerPrediction& worker : plan.workers)
      EXPECT_LE(worker.forward_flops,
                1.02 * flops / 7 * request.speed.capacities.speed_of(worker.worker))
          << pattern;
  }
}

// Seconds have parts that no division makes smaller, launches and what all read, so that who is
// slower gets less than its proportion.
TEST(FeaturePatterns, SecondsAreEvenWhereOnlyDevicesAreSaid) {
  const Model model = make_zoo_model("mlp");
  const auto seconds_of = [&](const std::string& pattern) {
    std::vector<double> seconds;
    for (const auto& worker : made(model, request_of_speeds_124(Minimise::kTime, pattern)).workers)
      seconds.push_back(worker.seconds);
    std::sort(seconds.begin(), seconds.end());
    return seconds;
  };
  const std::vector<double> found = seconds_of("");
  EXPECT_LE(found.back(), 1.02 * found.front());
  EXPECT_LT(found.back(), seconds_of("proportional").back());
}

TEST(FeaturePatterns, BlocksInTurn) {
  const Model model = small_mlp();  // 20-16-12-10
  PlanRequest request = free_request(2);
  request.steering.pattern = "block-cyclic:4";
  const Plan plan = made(model, request);
  const ops::Layout& fc1 =
      plan.layouts[static_cast<size_t>(model.node(model.find_node("fc1")).outputs[0])];
  EXPECT_EQ(ops::to_string(fc1.find(0)->box.axes[1]), "0-3,8-11");
  EXPECT_EQ(ops::to_string(fc1.find(1)->box.axes[1]), "4-7,12-15");
}

}  // namespace
}  // namespace kerf::partitioner
