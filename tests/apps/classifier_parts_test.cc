// What linear classifiers are made of: losses with their duals, rows, and models as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "apps/classifier/dual_losses.h"
#include "apps/classifier/linear_model.h"
#include "apps/classifier/training_rows.h"
#include "runtime/file.h"
#include "tests/apps/classes.h"
#include "tests/support/errors.h"

namespace kerf::apps {
namespace {

using testing::HasSubstr;

// ---- losses

constexpr LinearLoss kKinds[] = {LinearLoss::kLogistic, LinearLoss::kHinge,
                                 LinearLoss::kSquaredHinge};

// Calls act(loss, c) for every loss and some C.
template <class Act>
void for_losses(const Act& act) {
  for (const LinearLoss kind : kKinds)
    for (const double c : {1e-3, 1.0, 40.0}) {
      SCOPED_TRACE(to_string(kind) + format(", C {}", c));
      with_loss(kind, c, [&](const auto& loss) { act(kind, loss, c); });
    }
}

// Some states from the first one on, by steps along rows of these lengths.
template <class Loss>
std::vector<double> some_states(const Loss& loss) {
  std::vector<double> states{Loss::kStart};
  for (const double margin : {-30.0, -1.0, 0.3, 0.99, 4.0})
    for (const double squares : {0.01, 1.0, 50.0})
      states.push_back(loss.best(Loss::kStart, margin, squares));
  return states;
}

TEST(DualLosses, AreTheLosses) {
  for_losses([](LinearLoss kind, const auto& loss, double c) {
    for (const double margin : {-700.0, -3.0, -0.1, 0.0, 0.5, 1.0, 2.0, 700.0})
      EXPECT_DOUBLE_EQ(loss.loss(margin), c * tests::loss_of(kind, margin)) << margin;
  });
}

TEST(DualLosses, BeginWithNothing) {
  for_losses([](LinearLoss, const auto& loss, double) {
    EXPECT_EQ(loss.a(loss.kStart), 0);
    EXPECT_EQ(loss.dual(loss.kStart), 0);
    EXPECT_EQ(loss.gap(loss.kStart, -2), loss.loss(-2));
  });
}

// Fenchel and Young: loss(m) - dual(a) + a m is not below 0, and that is the gap.
TEST(DualLosses, HaveAGapThatIsNeverBelowZero) {
  for_losses([](LinearLoss, const auto& loss, double c) {
    for (const double state : some_states(loss))
      for (const double margin : {-20.0, -0.4, 0.0, 0.7, 1.0, 1.3, 25.0}) {
        const double expected = loss.loss(margin) - loss.dual(state) + loss.a(state) * margin;
        EXPECT_GE(loss.gap(state, margin), -1e-12 * c);
        EXPECT_NEAR(loss.gap(state, margin), expected, 1e-12 * (1 + c) * (1 + std::abs(margin)));
      }
  });
}

// The row's margin follows its a; at the best one the row adds nothing to the gap.
// Steps that swing within what is known to hold the zero come to it, too.
TEST(DualLosses, OfLogisticRegressionFindTheZeroThatHalvingFinds) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> spread(0, 1);
  const auto expect_zero = [](double state, double margin, double squares) {
    const LogisticLoss loss{1};
    const double now = LogisticLoss::sigmoid(state);
    double least = -margin - squares * (1 - now), most = -margin + squares * now;
    for (int i = 0; i < 200; ++i) {
      const double t = (least + most) / 2;
      (t + margin + squares * (LogisticLoss::sigmoid(t) - now) > 0 ? most : least) = t;
    }
    EXPECT_NEAR(loss.best(state, margin, squares), least, 1e-9 * (1 + std::abs(least)))
        << state << ' ' << margin << ' ' << squares;
  };
  expect_zero(-HUGE_VAL, -5.3318690206522055, 11.704692468060882);
  expect_zero(-603.5258869063714, -2.669707024118994, 328.62252998538446);
  for (int i = 0; i < 100'000; ++i)
    expect_zero(std::tan(3.1 * (spread(random) - 0.5)), 12 * spread(random) - 6,
                std::pow(400, spread(random)));
}

TEST(DualLosses, GoWhereTheRowAddsNothingToTheGap) {
  for_losses([](LinearLoss, const auto& loss, double c) {
    for (const double state : some_states(loss))
      for (const double margin : {-20.0, -1.0, 0.0, 0.5, 1.0, 3.0, 40.0})
        for (const double squares : {0.0, 1e-4, 1.0, 300.0}) {
          if (squares == 0 && margin != 0) continue;  // which a row without entries has not
          const double best = loss.best(state, margin, squares);
          const double then = margin + squares * (loss.a(best) - loss.a(state));
          EXPECT_NEAR(loss.gap(best, then), 0, 1e-9 * c * (1 + std::abs(margin)))
              << state << ' ' << margin << ' ' << squares;
          EXPECT_GE(loss.a(best), 0);
        }
  });
}

TEST(DualLosses, StayWithinWhatAIsIn) {
  for (const double margin : {-1e6, 0.0, 1e6}) {
    EXPECT_LE(HingeLoss{3}.best(0, margin, 1e-9), 3);
    EXPECT_LE(LogisticLoss{3}.a(LogisticLoss{3}.best(0, margin, 1)), 3);
    EXPECT_TRUE(std::isfinite(SquaredHingeLoss{3}.best(0, margin, 1e-9)));
  }
}

TEST(DualLosses, HaveStatesBetweenOthers) {
  for_losses([](LinearLoss, const auto& loss, double c) {
    const std::vector<double> states = some_states(loss);
    for (const double to : states)
      for (const double part : {0.0, 0.25, 1.0}) {
        const double from = states[2];
        const double expected = loss.a(from) + part * (loss.a(to) - loss.a(from));
        EXPECT_NEAR(loss.a(loss.between(from, to, part)), expected, 1e-12 * (c + expected));
      }
  });
}

// ---- rows

class Rows : public testing::Test {
 protected:
  Rows() {
    std::mt19937_64 random(3);
    for (int64_t row = 0; row < 25; ++row) {
      for (int32_t feature = 0; feature < 40; ++feature)
        if (random() % 3 != 0 || row == 0)
          add(feature, static_cast<float>(random() % 1000) / 8 - 60);
      if (row == 4) read_.row.resize(static_cast<size_t>(read_.begins.back()));  // none
      read_.values.resize(read_.row.size());
      read_.begins.push_back(read_.entries());
      signs_.push_back(random() % 2 == 0 ? 1 : -1);
    }
    read_.rows = 40;
    read_.columns = 25;
    for (int64_t i = 0; i < 25; ++i) order_.push_back((i * 7 + 3) % 25);
    for (int i = 0; i < 41; ++i) weights_.push_back(std::sin(i));
  }
  void add(int32_t feature, double value) {
    read_.row.push_back(feature);
    read_.values.push_back(value);
  }

  SparseColumns read_;
  std::vector<double> signs_, weights_;
  std::vector<int64_t> order_;
};

TEST_F(Rows, AreMultipliedAndAddedInTheirOrderTimesTheirSign) {
  for (const double bias : {0.0, 1.5, 0.1}) {
    const TrainingRows rows(read_, signs_, order_, bias);
    ASSERT_EQ(rows.count(), 25);
    EXPECT_EQ(rows.entries(), read_.entries() + (bias == 0 ? 0 : 25));
    for (int64_t i = 0; i < 25; ++i) {
      const int64_t from = order_[static_cast<size_t>(i)];
      const double sign = signs_[static_cast<size_t>(from)];
      double product = bias * weights_[40], squares = bias * bias;
      std::vector<double> expected = weights_, added = weights_;
      expected[40] += 3 * sign * bias;
      for (size_t k = 0; k < read_.rows_of(from).size(); ++k) {
        const auto feature = static_cast<size_t>(read_.rows_of(from)[k]);
        product += read_.values_of(from)[k] * weights_[feature];
        squares += read_.values_of(from)[k] * read_.values_of(from)[k];
        expected[feature] += 3 * sign * read_.values_of(from)[k];
      }
      EXPECT_NEAR(rows.product(i, weights_), sign * product, 1e-9);
      EXPECT_NEAR(rows.squares(i), squares, 1e-9);
      rows.add(i, 3, added);
      for (size_t j = 0; j < expected.size(); ++j) EXPECT_NEAR(added[j], expected[j], 1e-9);
    }
  }
}

// Half the memory, and nothing else: the same sums as of doubles.
TEST_F(Rows, OfFloatsAreTheSameAsOfDoubles) {
  const TrainingRows narrow(read_, signs_, order_, 0);
  SparseColumns with_one = read_;
  with_one.row.push_back(39);
  with_one.values.push_back(0.1);  // which is no float
  with_one.begins.push_back(with_one.entries());
  ++with_one.columns;
  signs_.push_back(1);
  const TrainingRows wide(with_one, signs_, order_, 0);
  for (int64_t i = 0; i < 25; ++i)
    EXPECT_EQ(narrow.product(i, weights_), wide.product(i, weights_));
}

// ---- models

class Models : public testing::Test {
 protected:
  LinearModel read(const std::string& text) const {
    const std::filesystem::path path = folder_ / "model.txt";
    runtime::write_file_atomic(path, text);
    return read_linear_model(FileBytes(path));
  }
  static std::string with(const std::string& line, const std::string& instead) {
    std::string text = kText;
    const size_t at = text.find(line);
    return text.replace(at, line.size(), instead);
  }

  static constexpr const char* kText =
      "kerf svm: the larger label where w . x > 0, w a line for each feature that has a weight\n"
      "labels -1 2.5\nC 0.1\nloss squared-hinge\nbias 2\nfeatures 5\n2 0.25\n5 -1.5\n6 3\n";
  tests::TemporaryFolder folder_;
};

TEST_F(Models, AreWrittenAsTheyAreRead) {
  const LinearModel model = read(kText);
  EXPECT_EQ(model.loss, LinearLoss::kSquaredHinge);
  EXPECT_EQ(model.labels.negative, -1);
  EXPECT_EQ(model.labels.positive, 2.5);
  EXPECT_EQ(model.c, 0.1);
  EXPECT_EQ(model.bias, 2);
  EXPECT_EQ(model.features, 5);
  EXPECT_EQ(model.weights, (std::vector<double>{0, 0.25, 0, 0, -1.5, 3}));
  write_linear_model(folder_ / "again.txt", model);
  EXPECT_EQ(runtime::read_file(folder_ / "again.txt"), kText);
}

TEST_F(Models, OfAnyNumbersComeBackToTheBit) {
  std::mt19937_64 random(5);
  LinearModel model{LinearLoss::kLogistic, {-3, 1e-300}, 1.0 / 3, 0.1, 200, {}};
  for (int i = 0; i < 201; ++i)
    model.weights.push_back(
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 900) - 500));
  model.weights[7] = std::numeric_limits<double>::denorm_min();
  write_linear_model(folder_ / "model.txt", model);
  const LinearModel found = read_linear_model(FileBytes(folder_ / "model.txt"));
  EXPECT_EQ(found.weights, model.weights);
  EXPECT_EQ(found.c, model.c);
  EXPECT_EQ(found.bias, model.bias);
  EXPECT_EQ(found.labels.positive, model.labels.positive);
}

TEST_F(Models, ScoreRowsWithTheirBiasAndWithoutUnknownFeatures) {
  const LinearModel model = read(kText);
  const std::vector<int32_t> features = {1, 3, 5, 70};  // the sixth is no feature, but the bias
  const std::vector<double> values = {4, 9, 100, 100};
  EXPECT_EQ(model.score(features, values), 0.25 * 4 + 2 * 3);
  EXPECT_EQ(model.label_of(0.1), 2.5);
  EXPECT_EQ(model.label_of(0), -1);
  EXPECT_DOUBLE_EQ(probability_of(std::log(3)), 0.75);
  LabelledRows rows;
  rows.rows = {5, 3, {0, 1, 1, 2}, {4, 4}, {100, -1}};
  rows.labels = {-1, -1, 2.5};
  EXPECT_DOUBLE_EQ(accuracy_of(model, rows), 2.0 / 3);
  rows.labels[0] = 7;
  EXPECT_DOUBLE_EQ(accuracy_of(model, rows), 1.0 / 3) << "it knows no 7";
}

TEST_F(Models, WhatIsNoneIsRefusedByItsLine) {
  const auto refused = [&](const std::string& text, int line, const std::string& why) {
    const auto error = tests::error_of([&] { read(text); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_EQ(error->where(), format("{}:{}", (folder_ / "model.txt").string(), line)) << text;
    EXPECT_THAT(error->message(), HasSubstr(why));
  };
  refused("", 1, "no model");
  refused(with("kerf svm", "kerf mf"), 1, "no model");
  refused(with("kerf svm", "kerf logistic"), 1, "no model");
  refused(with("labels -1 2.5", "labels 2.5 -1"), 2, "the smaller first, found '-1'");
  refused(with("labels -1 2.5", "labels 1"), 2, "found the line's end");
  refused(with("labels -1 2.5", "labels 1 2 3"), 2, "nothing more in the line, found '3'");
  refused(with("labels", "label"), 2, "'labels', found 'label'");
  for (const char* c : {"0", "-1", "nan", "inf", "x", ""})
    refused(with("C 0.1", format("C {}", c)), 3, "a finite number above 0");
  for (const char* loss : {"logistic", "", "squared"})
    refused(with("loss squared-hinge", format("loss {}", loss)), 4, "'hinge' or 'squared-hinge'");
  refused(with("bias 2", "bias -0.5"), 5, "of 0 or more");
  refused(with("bias 2", "bias 0"), 9, "a whole number from 6 to 5");
  for (const char* count : {"0", "-1", "2147483648", "1.5"})
    refused(with("features 5", format("features {}", count)), 6, "a whole number from 1 to");
  refused(with("features 5", "features 2147483647"), 6, "may claim");
  refused(with("5 -1.5", "2 1"), 8, "a whole number from 3 to 6, found '2'");
  refused(with("5 -1.5", "7 1"), 8, "a whole number from 3 to 6, found '7'");
  refused(with("5 -1.5", "5"), 8, "a finite number as the weight");
  refused(with("5 -1.5", "5 inf"), 8, "a finite number as the weight");
  refused(std::string(kText).substr(0, std::string(kText).find("bias")), 4, "the end of the file");
}

}  // namespace
}  // namespace kerf::apps
