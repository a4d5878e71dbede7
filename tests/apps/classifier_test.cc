// Linear classifiers over workers of one process, beside plain loops.
#include "apps/classifier/classifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/data/matrix_market.h"
#include "tests/apps/classes.h"
#include "tests/support/errors.h"

namespace kerf::apps {
namespace {

using testing::HasSubstr;
using tests::by_plain_loops;
using tests::classes_of;
using tests::ClassesFile;
using tests::classified;
using tests::objective_of;

constexpr LinearLoss kLosses[] = {LinearLoss::kLogistic, LinearLoss::kHinge,
                                  LinearLoss::kSquaredHinge};

class LinearClassifier : public testing::TestWithParam<LinearLoss> {};
INSTANTIATE_TEST_SUITE_P(Losses, LinearClassifier, testing::ValuesIn(kLosses));

TEST_P(LinearClassifier, FindsWhatPlainLoopsFind) {
  for (const double wrong : {0.0, 0.2}) {
    const tests::Classes classes = classes_of(50, 9, wrong, 3);
    const ClassesFile file(classes);
    for (const double c : {0.01, 1.0}) {
      const std::vector<double> expected = by_plain_loops(classes, GetParam(), c);
      const double optimum = objective_of(classes, GetParam(), c, expected);
      for (const int workers : {1, 2, 3})
        for (const int sweeps : {1, 5}) {
          SCOPED_TRACE(testing::Message() << wrong << ' ' << c << ' ' << workers << ' ' << sweeps);
          ClassifierOptions asked = file.asked(GetParam(), c);
          asked.sweeps = sweeps;
          const auto program = classified(asked, workers);
          EXPECT_TRUE(program->run().converged());
          const double found = objective_of(classes, GetParam(), c, program->weights());
          EXPECT_NEAR(objective_of(program->run().points().back()), found, 1e-11 * found);
          EXPECT_LE(found, optimum * (1 + 1.1e-9));
          EXPECT_GE(found, optimum * (1 - 1e-7)) << "the loop came no nearer";
          for (size_t j = 0; j < expected.size(); ++j)
            EXPECT_NEAR(program->weights()[j], expected[j], 1e-3) << j;
        }
    }
  }
}

TEST_P(LinearClassifier, IsNoFartherFromTheOptimumThanItSays) {
  const tests::Classes classes = classes_of(80, 30, 0.1, 9);
  const ClassesFile file(classes);
  const double optimum =
      objective_of(classified(file.asked(GetParam(), 2, 1e-12), 1)->run().points().back());
  const auto program = classified(file.asked(GetParam(), 2), 3);
  EXPECT_GT(program->run().points().size(), 3);
  for (const HistoryPoint& point : program->run().points()) {
    EXPECT_LE(objective_of(point) * (1 - gap_of(point).value()), optimum * (1 + 1e-12));
    EXPECT_GE(objective_of(point), optimum * (1 - 1e-9));
  }
}

// What workers find by themselves is the same, so that all of it would be workers times too much.
TEST_P(LinearClassifier, ConvergesOnRowsThatAllWorkersHave) {
  tests::Classes classes = classes_of(10, 6, 0.1, 5);
  const size_t distinct = classes.x.size();
  for (size_t i = 0; i < 11 * distinct; ++i) {
    classes.x.push_back(classes.x[i % distinct]);
    classes.y.push_back(classes.y[i % distinct]);
  }
  const ClassesFile file(classes);
  const double optimum =
      objective_of(classes, GetParam(), 0.5, by_plain_loops(classes, GetParam(), 0.5));
  for (const int workers : {2, 4, 12}) {
    const auto program = classified(file.asked(GetParam(), 0.5, 1e-6), workers);
    EXPECT_TRUE(program->run().converged()) << workers;
    EXPECT_NEAR(objective_of(program->run().points().back()), optimum, 2e-6 * optimum);
  }
}

TEST_P(LinearClassifier, TakesAnyWeightOfLosses) {
  const tests::Classes classes = classes_of(60, 8, 0.0, 4);
  const ClassesFile file(classes);
  for (const double c : {1e-9, 1e-4, 1e3}) {
    const auto program = classified(file.asked(GetParam(), c, 1e-4), 2);
    EXPECT_TRUE(program->run().converged()) << c;
    if (c < 1) continue;
    for (size_t i = 0; i < classes.x.size(); ++i)
      EXPECT_GT(classes.margin(i, program->weights()), 0) << "there is a plane between them";
  }
}

// A bias is a feature that all rows have.
TEST_P(LinearClassifier, HasABiasLikeAFeature) {
  tests::Classes classes = classes_of(40, 7, 0.1, 6);
  const ClassesFile without(classes);
  for (auto& row : classes.x) row.push_back(2);
  const ClassesFile with(classes);
  ClassifierOptions asked = without.asked(GetParam(), 1);
  asked.bias = 2;
  EXPECT_EQ(classified(asked, 2)->weights(), classified(with.asked(GetParam(), 1), 2)->weights());
}

TEST_P(LinearClassifier, TakesRowsWithoutEntriesAndLabelsOfAnyNumbers) {
  const tests::Classes classes = classes_of(30, 5, 0.1, 8);
  const std::string text = tests::libsvm_of(classes);
  const ClassesFile plain(text + "-1\n1 3:0\n"),
      other(tests::libsvm_of(classes, 2.5, 7) + "2.5\n7\n");
  const auto expected = classified(plain.asked(GetParam(), 1), 2);
  const auto program = classified(other.asked(GetParam(), 1), 2);
  EXPECT_TRUE(program->run().converged());
  EXPECT_EQ(program->weights(), expected->weights());
  EXPECT_GE(objective_of(program->run().points().back()), 2 * tests::loss_of(GetParam(), 0));
}

TEST_P(LinearClassifier, ReadsMatricesLikeText) {
  const tests::Classes classes = classes_of(20, 5, 0.1, 8);
  const ClassesFile file(classes);
  const tests::TemporaryFolder folder;
  std::vector<double> values;
  for (const auto& row : classes.x) values.insert(values.end(), row.begin(), row.end());
  write_matrix_market(folder / "x.mtx", values, 5);
  write_matrix_market(folder / "y.mtx", classes.y);
  ClassifierOptions asked = file.asked(GetParam(), 1);
  const auto expected = classified(asked, 3);
  asked.file = {folder / "x.mtx", folder / "y.mtx"};
  asked.size = size_of_labelled(asked.file);
  EXPECT_EQ(classified(asked, 3)->weights(), expected->weights());
}

TEST_P(LinearClassifier, RepeatsItself) {
  const ClassesFile file(classes_of(90, 40, 0.1, 8));
  ClassifierOptions asked = file.asked(GetParam(), 1, 1e-5);
  const auto once = classified(asked, 3);
  EXPECT_EQ(once->weights(), classified(asked, 3)->weights());
  asked.seed = 2;
  EXPECT_NE(once->weights(), classified(asked, 3)->weights());
}

// More features than a message has room for.
TEST_P(LinearClassifier, HasMessagesOfAnySize) {
  const tests::Classes classes = classes_of(40, 6, 0.1, 5);
  const ClassesFile plain(classes), wide(tests::libsvm_of(classes, -1, 1, 210'000));
  const auto expected = classified(plain.asked(GetParam(), 1), 2);
  std::vector<double> found = classified(wide.asked(GetParam(), 1), 2)->weights();
  ASSERT_EQ(found.size(), 210'006);
  found.resize(6);
  EXPECT_EQ(found, expected->weights());
}

TEST_P(LinearClassifier, StopsWhereItIsTold) {
  const ClassesFile file(classes_of(200, 20, 0.2, 8));
  ClassifierOptions asked = file.asked(GetParam(), 100, 0);
  asked.most_passes = 3;
  const auto program = classified(asked, 2);
  EXPECT_FALSE(program->run().converged());
  const HistoryPoint& last = program->run().points().back();
  EXPECT_GE(last.updates, 3 * 200);
  EXPECT_LT(last.updates, 6 * 200);
  EXPECT_TRUE(gap_of(last)) << "it ends with a check";
}

TEST_P(LinearClassifier, EndsWhereRoundingLetsNothingFall) {
  const ClassesFile file(classes_of(40, 5, 0.1, 3));
  ClassifierOptions asked = file.asked(GetParam(), 1, -1);  // which no gap is
  asked.most_passes = 0;
  const auto program = classified(asked, 2);
  EXPECT_FALSE(program->run().converged());
  EXPECT_TRUE(program->run().stalled());
  EXPECT_LT(gap_of(program->run().points().back()).value(), 1e-10);
}

// Rows rest where they add little: near the end most of them do, being certain.
TEST(LinearClassifierAtRest, LooksLessAtRowsThatAddLittle) {
  const tests::Classes classes = classes_of(2000, 5, 0.0, 3);
  const ClassesFile file(classes);
  const auto program = classified(file.asked(LinearLoss::kHinge, 1, 1e-7), 2);
  const HistoryPoint& last = program->run().points().back();
  EXPECT_LT(last.updates, last.rounds * 2000 / 2);
}

// ---- what it refuses

void expect_refused(const std::string& text, const std::string& why) {
  const ClassesFile file(text);
  const auto error = tests::error_of([&] { classified(file.asked(LinearLoss::kHinge, 1), 2); });
  ASSERT_TRUE(error) << text;
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_THAT(error->what(), HasSubstr(why));
  EXPECT_THAT(error->what(), HasSubstr("data.libsvm"));
}

TEST(LinearClassifierRefuses, WhatIsNoProblemOfTwoClasses) {
  expect_refused("", "it has no rows");
  expect_refused("1 1:1\n1 2:1\n", "all rows have the label 1");
  expect_refused("1 1:1\n2 2:1\n3 1:2\n", "the labels 1, 2 and 3; there must be two");
  expect_refused("1\n-1\n", "it has no features");
  expect_refused("1 1:1\nnan 1:1\n", "data.libsvm:2");
  expect_refused("1 1:1\n-1 2147483648:1\n", "data.libsvm:2");
  expect_refused("1 1:1\n-1 2147483647:1\n", "beyond what a file of");
}

// What only the worker reads that has the row.
TEST(LinearClassifierRefuses, EntriesThatAreNone) {
  expect_refused("1 1:1 2:2\n-1 2:1 1:1 3:1\n", "data.libsvm:2");
  expect_refused("1 1:1 2:2\n-1 1:nan 2:1\n", "data.libsvm:2");
  expect_refused("1 9:1 2:2\n-1 1:1\n", "data.libsvm:1");
  expect_refused("1 1:1\n-1 1:1e200\n", "squares of row 2 is no finite number");
}

}  // namespace
}  // namespace kerf::apps
