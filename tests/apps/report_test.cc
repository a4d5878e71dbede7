#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "apps/report/progress.h"
#include "apps/report/table.h"
#include "apps/report/terminal.h"

namespace kerf::apps {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

TEST(Table, AlignsTheFirstColumnLeftAndNumbersRight) {
  Table table({"worker", "bytes"});
  table.add({"0", "1 B"});
  table.add({"10", "12 KiB"});
  EXPECT_EQ(table.text(),
            "worker   bytes\n"
            "0          1 B\n"
            "10      12 KiB\n");
}

TEST(Table, ColoursOnlyWhenAsked) {
  Table table({"a"});
  EXPECT_THAT(table.text(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(table.text(true), HasSubstr("\x1b[1m"));
}

TEST(Units, AreHuman) {
  EXPECT_EQ(human_flops(0), "0 FLOP");
  EXPECT_EQ(human_flops(1234567), "1.23 MFLOP");
  EXPECT_EQ(human_percent(0.1234), "12.3 %");
}

// A clock that the test moves, and what was written.
struct Screen {
  Progress::Time now{};
  std::vector<std::string> written;

  Progress::Options options(bool terminal, int64_t steps, int epochs) {
    Progress::Options options;
    options.terminal = terminal;
    options.total_steps = steps;
    options.epochs = epochs;
    options.width = [] { return 200; };
    options.now = [this] { return now; };
    options.write = [this](const std::string& text) { written.push_back(text); };
    return options;
  }
};

// Once it is known how many there were; and they count in no mean.
TEST(Progress, TellsOfSkippedStepsWhenTheyAreOver) {
  Screen screen;
  Progress progress(screen.options(false, 5, 1));
  const auto step = [&](int64_t number, double loss, const std::string& cause) {
    schedmp::StepRecord record{number, 0, 100, loss};
    record.skipped = cause;
    progress.step(record);
  };
  step(0, 2.0, "");
  step(1, 7.0, "the gradient of w");
  step(2, NAN, "the loss");
  EXPECT_TRUE(screen.written.empty());
  step(3, 4.0, "");
  EXPECT_EQ(screen.written.back(), "steps 1 to 2 skipped: the gradient of w is not finite\n");
  step(4, NAN, "the loss");
  progress.finish();
  ASSERT_EQ(screen.written.size(), 3U);
  EXPECT_EQ(screen.written[1], "step 4 skipped: the loss is not finite\n");
  EXPECT_THAT(screen.written[2], HasSubstr("loss 3.0000"));
}

TEST(Progress, ShowsEpochStepLossRateAndTimeLeft) {
  Screen screen;
  Progress progress(screen.options(true, 4, 2));
  progress.step({0, 0, 100, 2.0});
  screen.now += 1s;
  progress.step({1, 0, 100, 1.0});
  const std::string& line = screen.written.back();
  EXPECT_THAT(line, testing::StartsWith("\r"));
  for (const char* part : {"epoch 1/2", "step 2/4", "loss 1.0000", "100 rows/s", "2 s left"})
    EXPECT_THAT(line, HasSubstr(part));
}

TEST(Progress, TellsRateAndTimeLeftOnceTheyAreKnownAndInWholeSeconds) {
  Screen screen;
  screen.now += 1h;
  Progress progress(screen.options(true, 3, 1));
  progress.step({0, 0, 100, 2.0});
  EXPECT_THAT(screen.written.back(), testing::EndsWith("step 1/3  loss 2.0000"));
  screen.now += 300ms;
  progress.step({1, 0, 100, 2.0});
  EXPECT_THAT(screen.written.back(), testing::EndsWith("   333 rows/s   1 s left"));
  screen.now += 300ms;
  progress.step({2, 0, 100, 2.0});
  EXPECT_THAT(screen.written.back(), testing::EndsWith("   0 s left"));
}

TEST(Progress, KeepsTheBarWhereItIs) {
  Screen screen;
  screen.now += 1h;
  auto options = screen.options(true, 2000, 1);
  options.width = [] { return 100; };
  Progress progress(options);
  std::vector<size_t> ends;
  for (int step = 0; step < 40; ++step) {
    progress.step({step, 0, 128, 2.3});
    // Rates from 128 to 1,280 rows/s, half an hour left and more.
    screen.now += step % 2 == 0 ? 1s : 100ms;
    ends.push_back(screen.written.back().find(']'));
  }
  // The first frame leaves room for a minute and a half, which is not enough here.
  for (size_t i = 2; i < ends.size(); ++i) EXPECT_EQ(ends[i], ends[1]) << "frame " << i;
}

TEST(Progress, SaysNothingOfAnEpochThatDidNotEnd) {
  Screen screen;
  screen.now += 1h;
  Progress plain(screen.options(false, 4, 2));
  plain.step({0, 0, 10, 1.0});
  plain.abandon();
  EXPECT_TRUE(screen.written.empty());
  Progress bar(screen.options(true, 4, 2));
  bar.step({0, 0, 10, 1.0});
  bar.abandon();
  EXPECT_EQ(screen.written.size(), 2U);
  EXPECT_EQ(screen.written.back(), "\n");
}

TEST(Progress, LeavesTheResultOfAnEvaluationAloneToTheReport) {
  Screen screen;
  Progress progress(screen.options(false, 0, 1));
  progress.evaluation({0, 200, 150, 0.5});
  progress.finish();
  EXPECT_TRUE(screen.written.empty());
}

TEST(Progress, RedrawsAtMostTenTimesASecond) {
  Screen screen;
  screen.now += 1h;
  Progress progress(screen.options(true, 1000, 1));
  for (int step = 0; step < 100; ++step) {
    progress.step({step, 0, 1, 1.0});
    screen.now += 10ms;
  }
  EXPECT_LE(screen.written.size(), 11U);
  EXPECT_GE(screen.written.size(), 9U);
}

TEST(Progress, FitsTheTerminal) {
  Screen screen;
  auto options = screen.options(true, 2, 1);
  options.width = [] { return 20; };
  Progress progress(options);
  screen.now += 1s;
  progress.step({0, 0, 1, 1.0});
  EXPECT_LE(screen.written.back().size(), 20U + std::string("\r\x1b[K").size());
}

TEST(Progress, GivesUpTheBarBeforeTheWords) {
  Screen screen;
  auto options = screen.options(true, 2345, 5);
  options.width = [] { return 80; };
  Progress progress(options);
  for (int step = 0; step < 2; ++step) {
    screen.now += 8ms;
    progress.step({step, 0, 128, 2.3});
  }
  screen.now += 1s;
  progress.step({2, 0, 128, 2.3});
  const std::string& line = screen.written.back();
  EXPECT_LE(line.size(), 79U + std::string("\r\x1b[K").size());
  EXPECT_THAT(line, HasSubstr("["));
  EXPECT_THAT(line, testing::EndsWith(" left"));
}

TEST(Progress, WritesOnePlainLinePerEpochWhereThereIsNoTerminal) {
  Screen screen;
  Progress progress(screen.options(false, 4, 2));
  for (int step = 0; step < 4; ++step) {
    progress.step({step, step / 2, 10, 1.0 + step});
    screen.now += 1s;
  }
  progress.finish();
  EXPECT_THAT(screen.written, testing::ElementsAre(HasSubstr("epoch 1/2: loss 1.5"),
                                                   HasSubstr("epoch 2/2: loss 3.5")));
  for (const auto& line : screen.written) EXPECT_THAT(line, Not(HasSubstr("\r")));
}

TEST(Progress, TellsTheTestAccuracyOfAnEpochOnItsLine) {
  Screen screen;
  Progress progress(screen.options(false, 2, 1));
  progress.step({0, 0, 10, 1.0});
  progress.step({1, 0, 10, 1.0});
  progress.evaluation({0, 200, 150, 0.5});
  progress.finish();
  EXPECT_THAT(screen.written, testing::ElementsAre(HasSubstr("test accuracy 75.00 %")));
}

TEST(Progress, TellsWhatElseATestSays) {
  Screen screen;
  Progress progress(screen.options(false, 2, 1));
  schedmp::EvaluationRecord of_words{0, 2, 6, 1.0, 4, 7};
  of_words.label_axes = 1;
  progress.evaluation(of_words);
  progress.evaluation({0, 2, 6, 1.0, 4});
  progress.finish();
  ASSERT_EQ(screen.written.size(), 2U);
  EXPECT_THAT(screen.written[0], HasSubstr("75.00 %, perplexity 2.72, top-5 87.50 %"));
  EXPECT_THAT(screen.written[1], Not(HasSubstr("perplexity"))) << "nor of an image's pixels";
}

TEST(Progress, CountsInTheWordsOfTheProgram) {
  Screen screen;
  screen.now += 1h;
  auto options = screen.options(true, 4, 2);
  options.words = {"sweep", "round", "objective", "rounds"};
  options.epoch_lines = false;
  Progress progress(options);
  for (int round = 0; round < 4; ++round) {
    progress.step({round, round / 2, 1, 3.0});
    screen.now += 1s;
  }
  progress.finish();
  ASSERT_GE(screen.written.size(), 2U);
  EXPECT_EQ(screen.written.back(), "\n");
  EXPECT_THAT(screen.written[screen.written.size() - 2],
              HasSubstr("sweep 2/2  round 4/4  objective 3.0000       1 rounds/s"));
  for (const auto& line : screen.written) EXPECT_THAT(line, Not(HasSubstr("sweep 1/2:")));
  Screen plain;
  options = plain.options(false, 4, 2);
  options.epoch_lines = false;
  Progress quiet(options);
  for (int round = 0; round < 4; ++round) quiet.step({round, round / 2, 1, 3.0});
  quiet.finish();
  EXPECT_TRUE(plain.written.empty());
}

TEST(Progress, RateLeavesOutStartUpAndTests) {
  Screen screen;
  Progress progress(screen.options(false, 3, 2));
  screen.now += 50s;
  progress.step({0, 0, 10, 1.0});
  screen.now += 1s;
  progress.step({1, 0, 10, 1.0});
  screen.now += 50s;
  progress.evaluation({0, 1, 1, 0});
  screen.now += 1s;
  progress.step({2, 1, 10, 1.0});
  EXPECT_DOUBLE_EQ(progress.rows_per_second(), 10.0);
  EXPECT_DOUBLE_EQ(progress.median_step_seconds(), 1.0);
}

// Of records that say when a worker was done; when they come says nothing.
TEST(Progress, RateIsThatOfTheWorkers) {
  Screen screen;
  Progress progress(screen.options(false, 4, 1));
  for (int step = 0; step < 4; ++step)
    progress.step({.step = step, .rows = 10, .loss = 1, .end_ns = 1'000'000'000LL * (step + 5)});
  EXPECT_DOUBLE_EQ(progress.rows_per_second(), 10.0);
  EXPECT_DOUBLE_EQ(progress.median_step_seconds(), 1.0);
  progress.evaluation({.rows = 1, .loss = std::nan(""), .label_axes = 1});
  ASSERT_FALSE(screen.written.empty());
  EXPECT_THAT(screen.written.back(), HasSubstr("test loss not finite"));
  EXPECT_THAT(screen.written.back(), HasSubstr("perplexity not finite"));
}

TEST(Terminal, ShowsControlCharactersInsteadOfObeyingThem) {
  EXPECT_EQ(printable("x\n\x1b[31m\x7f\t"), "x\\x0a\\x1b[31m\\x7f\\x09");
  EXPECT_EQ(printable("größe"), "größe");
  EXPECT_EQ(printable("worker 1 is lost\n  worker 0 waits"), "worker 1 is lost\n  worker 0 waits");
}

TEST(Terminal, ALongMessageLosesItsMiddle) {
  EXPECT_EQ(readable("worker 1 is lost"), "worker 1 is lost");
  const std::string text = readable("plan.json: " + std::string(1'000'000, 'a') + " is no name");
  EXPECT_LT(text.size(), 17'000u);
  EXPECT_THAT(text, ::testing::StartsWith("plan.json: aaa"));
  EXPECT_THAT(text, HasSubstr("aaa [983638 characters left out] aaa"));
  EXPECT_THAT(text, ::testing::EndsWith("aaa is no name"));
}

TEST(Terminal, PaintsOnlyWhenAsked) {
  EXPECT_EQ(painted("x", Ink::kRed, false), "x");
  EXPECT_EQ(painted("x", Ink::kRed, true), "\x1b[31mx\x1b[0m");
}

}  // namespace
}  // namespace kerf::apps
