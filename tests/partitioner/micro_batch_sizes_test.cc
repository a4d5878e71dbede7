// How the rows of a step go to its micro-batches: evenly, or as a person said.
#include "partitioner/micro_batch_sizes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

using testing::plan_of;
using testing::request_of;
using testing::small_mlp;

using Sizes = std::vector<int64_t>;

int64_t sum_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

TEST(MicroBatchSizes, AreEvenLargerOnesFirst) {
  EXPECT_EQ(MicroBatchSizes(8).of(128), Sizes(8, 16));
  EXPECT_EQ(MicroBatchSizes(4).of(10), (Sizes{3, 3, 2, 2}));
  EXPECT_EQ(MicroBatchSizes(4).of(2), (Sizes{1, 1, 0, 0}));
}

TEST(MicroBatchSizes, AreFilledInTheirOrderWhereTheyWereGiven) {
  const Sizes given{4, 1, 3};
  const MicroBatchSizes sizes(3, given);
  EXPECT_EQ(sizes.of(8), given);
  EXPECT_EQ(sizes.of(7), (Sizes{4, 1, 2}));
  EXPECT_EQ(sizes.of(5), (Sizes{4, 1, 0}));
  EXPECT_EQ(sizes.of(3), (Sizes{3, 0, 0}));
  EXPECT_EQ(sizes.of(0), (Sizes{0, 0, 0}));
}

// Of any step: all rows, in order, each once; as many counts as there are micro-batches; the
// largest is among them; and of given sizes no more than those.
void expect_sound(const MicroBatchSizes& sizes, int micro_batches, const Sizes& given,
                  int64_t rows) {
  SCOPED_TRACE(format("{} rows over {}", rows, sizes_text(micro_batches, given)));
  const Sizes all = sizes.of(rows);
  ASSERT_EQ(std::ssize(all), micro_batches);
  EXPECT_EQ(sum_of(all), rows);
  EXPECT_EQ(*std::ranges::max_element(all), sizes.largest(rows));
  std::map<int64_t, int> counted;
  int64_t first = 0;
  for (int mb = 0; mb < micro_batches; ++mb) {
    const int64_t size = all[static_cast<size_t>(mb)];
    EXPECT_EQ(sizes.first(rows, mb), first);
    EXPECT_EQ(sizes.size(rows, mb), size);
    if (!given.empty()) {
      EXPECT_LE(size, given[static_cast<size_t>(mb)]);
    }
    first += size;
    ++counted[size];
  }
  EXPECT_EQ(sizes.first(rows, micro_batches), rows);
  EXPECT_EQ(sizes.counted(rows), counted);
}

TEST(MicroBatchSizes, OfAnyStepAreAllItsRowsInOrder) {
  for (const int micro_batches : {1, 2, 3, 7, 8})
    for (int64_t rows = 0; rows < 30; ++rows)
      expect_sound(MicroBatchSizes(micro_batches), micro_batches, {}, rows);
  for (const Sizes& given : {Sizes{5}, Sizes{1, 1, 1}, Sizes{16, 8, 4, 2}, Sizes{2, 9, 1, 9, 3}})
    for (int64_t rows = 0; rows <= sum_of(given); ++rows) {
      const auto count = static_cast<int>(given.size());
      expect_sound(MicroBatchSizes(count, given), count, given, rows);
    }
}

TEST(MicroBatchSizes, AreTheRequestsAndThePlans) {
  PlanRequest request = request_of(Cut::kLayer, 2, 12, 3);
  EXPECT_EQ(request.largest_micro_batch(), 4);
  request.given_sizes = {2, 7, 3};
  EXPECT_EQ(request.largest_micro_batch(), 7);
  const Plan plan = plan_of(small_mlp(), request);
  EXPECT_EQ(plan.largest_micro_batch(), 7);
  EXPECT_EQ(plan.sizes().of(10), (Sizes{2, 7, 1}));
}

TEST(MicroBatchSizes, AreCheckedBeforeAnyoneTakesThem) {
  EXPECT_EQ(check_given_sizes(8, {}, 128), "");
  EXPECT_EQ(check_given_sizes(2, Sizes{100, 28}, 128), "");
  for (const auto& [given, why] :
       std::vector<std::pair<Sizes, std::string>>{{{100, 27}, "127 rows, but the step has 128"},
                                                  {{128, 0}, "micro-batch 1 has 0 rows"},
                                                  {{129, -1}, "micro-batch 1 has -1 rows"},
                                                  {{kMostRows + 1, 1}, "micro-batch 0 has"},
                                                  {{128}, "1 sizes of 2 micro-batches"}}) {
    EXPECT_THAT(check_given_sizes(2, given, 128), ::testing::HasSubstr(why));
    PlanRequest request = request_of(Cut::kLayer, 2, 128, 2);
    request.given_sizes = given;
    EXPECT_THAT([&] { plan_of(small_mlp(), request); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr(why)));
  }
  Plan plan = plan_of(small_mlp(), request_of(Cut::kLayer, 2, 32, 4));
  plan.given_sizes = {8, 8, 8, 9};
  EXPECT_THAT(validate(small_mlp(), plan), ::testing::Contains(::testing::HasSubstr("33 rows")));
}

// Each is one that fits, beside memory: what was given says nothing of how many even ones would do.
TEST(MicroBatchSizes, ThatDoNotFitMayBeReplacedByEvenOnes) {
  const Model model = small_mlp();
  PlanRequest request = request_of(Cut::kLayer, 2, 256, 4);
  int64_t even = 0;
  for (const WorkerPrediction& worker : plan_of(model, request).workers)
    even = std::max(even, worker.peak_bytes);
  request.given_sizes = {250, 2, 2, 2};
  request.memory = even;
  const auto answer = make_plan(model, request, *hold_everything());
  ASSERT_TRUE(std::holds_alternative<Infeasible>(answer));
  EXPECT_THAT(std::get<Infeasible>(answer).smallest_change,
              ::testing::MatchesRegex("--batch 256 --micro-batches [1-4]"));
}

TEST(MicroBatchSizes, AreToldAsTheyAreGiven) {
  EXPECT_EQ(sizes_text(8, {}), "8");
  EXPECT_EQ(sizes_text(3, Sizes{32, 16, 8}), "32,16,8");
  EXPECT_EQ(sizes_in_words(1, {}), "1 micro-batch");
  EXPECT_EQ(sizes_in_words(3, Sizes{32, 16, 8}), "micro-batches of 32,16,8");
  EXPECT_EQ(sizes_in_words(9, Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9}),
            "micro-batches of 1,2,3,4,5,6,7,..,9");
}

}  // namespace
}  // namespace kerf::partitioner
