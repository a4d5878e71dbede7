// The most rows of a micro-batch that fit, and how few plans it takes to find them.
#include "partitioner/most_rows.h"

#include <gmock/gmock.h>

#include "partitioner/tried_plan.h"
#include "tests/partitioner/sample_models.h"

namespace kerf::partitioner {
namespace {

constexpr int64_t kCap = 1'000'000;

// So many bytes beside those of each row, where that is told.
struct Peaks {
  int64_t fixed = 0;
  int64_t per_row = 1;
  bool are_told = true;
  int tries = 0;

  int64_t of(int64_t rows) const { return fixed + per_row * rows; }
  MostRows search() {
    const auto try_with = [this](int64_t rows) {
      ++tries;
      TriedRows tried{rows, of(rows) <= kCap};
      if (are_told) tried.peak = of(rows);
      return tried;
    };
    return MostRows(try_with, kCap);
  }
  int64_t most() const { return (kCap - fixed) / per_row; }
};

TEST(MostRows, OfPeaksOnALineAreFoundAtOnce) {
  for (const int64_t fixed : {0, 1'000, 400'000, 950'000})
    for (const int64_t per_row : {3, 70, 9'000}) {
      Peaks peaks{fixed, per_row};
      const int64_t above = 10 * peaks.most() + 10;
      const TriedRows most =
          peaks.search().between({0, true, fixed}, {above, false, peaks.of(above)});
      EXPECT_EQ(most.rows, peaks.most()) << fixed << " " << per_row;
      EXPECT_LE(peaks.tries, 3) << fixed << " " << per_row;
    }
}

// What nothing takes is not known: 0 is a first guess.
TEST(MostRows, AreFoundWhateverRowsThatFitTake) {
  for (const int64_t fixed : {0, 400'000, 950'000})
    for (const int64_t per_row : {3, 70, 9'000}) {
      Peaks peaks{fixed, per_row};
      const int64_t above = 10 * peaks.most() + 10;
      const TriedRows most = peaks.search().between({0, true, 0}, {above, false, peaks.of(above)});
      EXPECT_EQ(most.rows, peaks.most()) << fixed << " " << per_row;
      EXPECT_LE(peaks.tries, 24) << fixed << " " << per_row;
    }
}

// Plans within a cap are not the least that there is, and may take nearly all of it.
TEST(MostRows, AreFoundSoonWhereWhatFitsTakesTheWholeCap) {
  for (const int64_t bent : {0, 1}) {
    int tries = 0;
    const auto peak_of = [&](int64_t rows) {
      return bent == 0 ? 4 * rows : 100 + 20'000 * rows * rows * rows / (512 * 512 * 512);
    };
    const int64_t cap = 1'900;
    const auto try_with = [&](int64_t rows) {
      ++tries;
      const bool within = peak_of(rows) <= cap;
      return TriedRows{rows, within, within ? cap - cap / 200 : peak_of(rows)};
    };
    const TriedRows most =
        MostRows(try_with, cap).between({0, true, 0}, {512, false, peak_of(512)});
    EXPECT_LE(peak_of(most.rows), cap);
    EXPECT_GT(peak_of(most.rows + 1), cap);
    EXPECT_LE(tries, 18);
  }
}

TEST(MostRows, AreFoundByHalvesWherePeaksAreNotTold) {
  Peaks peaks{.per_row = 9, .are_told = false};
  EXPECT_EQ(peaks.search().between({1, true}, {1 << 20, false}).rows, peaks.most());
  EXPECT_LE(peaks.tries, 20 + 17);
}

TEST(MostRows, AreTheFewestWhereNoneMoreFit) {
  Peaks peaks{.fixed = 2 * kCap};
  EXPECT_EQ(peaks.search().between({0, true, 0}, {16, false, peaks.of(16)}).rows, 0);
}

// 12 rows do not fit where 13 do, as parts may share those evenly.
TEST(MostRows, AreLookedForALittleFurther) {
  const auto try_with = [](int64_t rows) { return TriedRows{rows, rows != 12 && rows < 20}; };
  MostRows most(try_with, std::nullopt);
  EXPECT_EQ(most.between({11, true}, {13, false}).rows, 11);
  MostRows further(try_with, std::nullopt);
  further.between({1, true}, {1'000, false});
  EXPECT_EQ(further.further().rows, 19);
}

TEST(FewestRows, AreThoseThatACutBySamplesDivides) {
  const Model model = make_zoo_model("mlp", {{12, 9, 7, 5}});
  for (const int workers : {1, 2, 3, 5}) {
    PlanRequest request = testing::request_of(Cut::kBatch, workers, 64, 2);
    request.memory = 1;  // does not count
    EXPECT_EQ(fewest_rows(model, request, *hold_everything()), workers);
    request.cut = Cut::kFeature;
    EXPECT_EQ(fewest_rows(model, request, *hold_everything()), 1);
  }
}

// Of micro-batches of the told number some plan fits, and of one row more none.
TEST(SmallestChange, IsTheFewestMicroBatches) {
  int told = 0;
  for (const char* name : {"lenet5", "mlp"})
    for (const Cut cut : {Cut::kLayer, Cut::kFeature, Cut::kBatch, Cut::kHybrid})
      for (const int64_t percent : {95, 80, 60, 40}) {
        const Model model = make_zoo_model(name, {.width = 0.5});
        PlanRequest request = testing::request_of(cut, 3, 128, 4);
        request.memory =
            peak_of(std::get<PlannedModel>(plan_model(model, request, *hold_everything())).plan) *
            percent / 100;
        const auto answer = plan_model(model, request, *hold_everything());
        const auto* lacks = std::get_if<Infeasible>(&answer);
        if (lacks == nullptr || lacks->micro_batches == 0) continue;
        ++told;
        request.micro_batches = lacks->micro_batches;
        EXPECT_TRUE(fits(model, request, *hold_everything())) << lacks->text();
        const int64_t rows = request.largest_micro_batch();
        while (request.largest_micro_batch() == rows) --request.micro_batches;
        EXPECT_FALSE(fits(model, request, *hold_everything())) << lacks->text();
      }
  EXPECT_GT(told, 8);
}

}  // namespace
}  // namespace kerf::partitioner
