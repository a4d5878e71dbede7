// Rows fitted to what actions take.
#include "schedmp/schedules/fitted_rows.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "ops/random.h"
#include "schedmp/kept.h"
#include "schedmp/staircase.h"
#include "schedmp/verify.h"
#include "tests/schedmp/sorted_row.h"

namespace kerf::schedmp {
namespace {

const std::vector<std::string> kThereAndBack = {"zbv", "v-half", "v-min", "dualpipe-v"};

// F, I and W of a stage, and what messages take: any numbers.
ActionCosts any_costs(uint64_t seed, int stages) {
  int64_t drawn = 0;
  const auto any = [&] {
    return 0.2 + static_cast<double>(ops::uniform({seed, 0, 0, 0}, drawn++));
  };
  ActionCosts costs;
  for (int stage = 0; stage < stages; ++stage) costs.stages.push_back({any(), any(), any()});
  costs.transfer = seed % 2 == 0 ? 0 : any() / 4;
  return costs;
}

TEST(FittedRows, AreTheSameActionsInTheSameMemoryAndNeverLater) {
  int shorter = 0, all = 0;
  for (const std::string& name : kThereAndBack)
    for (const int workers : {1, 2, 4})
      for (const int micro_batches : {1, 5, 12})
        for (uint64_t seed = 0; seed < 6; ++seed) {
          SCOPED_TRACE(kerf::format("{} {} {} {}", name, workers, micro_batches, seed));
          const Pipeline pipeline = chain_of_shape(name, workers);
          const ActionCosts costs = any_costs(seed, pipeline.graph.stages());
          const Schedule made = make_schedule(name, pipeline, micro_batches);
          const Schedule fitted = make_schedule(name, pipeline, micro_batches, costs);
          EXPECT_THAT(check_order(fitted), testing::IsEmpty());
          const std::vector<int> before = peak_activations(made), after = peak_activations(fitted);
          for (size_t worker = 0; worker < made.rows.size(); ++worker) {
            EXPECT_EQ(sorted(fitted.rows[worker]), sorted(made.rows[worker]));
            EXPECT_LE(after[worker], before[worker]);
          }
          const double was = bubble(made, pipeline.graph, costs).makespan;
          const double is = bubble(fitted, pipeline.graph, costs).makespan;
          EXPECT_LE(is, was);
          if (workers == 1 || micro_batches == 1) continue;  // there is nothing to gain
          ++all;
          shorter += is < 0.99 * was ? 1 : 0;
        }
  EXPECT_GT(shorter, all / 4) << "of " << all;
}

TEST(FittedRows, LeaveWhatTheRowsAreMadeFor) {
  for (const std::string& name : kThereAndBack) {
    const Pipeline pipeline = chain_of_shape(name, 4);
    EXPECT_EQ(make_schedule(name, pipeline, 9, {.others = {2, 2, 2}}),
              make_schedule(name, pipeline, 9));
  }
}

}  // namespace
}  // namespace kerf::schedmp
