// What is told of a program while it runs and afterwards.
#include "apps/report/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "apps/report/history_picture.h"
#include "schedmp/state.h"

namespace kerf::apps {
namespace {

using testing::HasSubstr;
using testing::Not;

// Points cannot be given their seconds: a history takes them itself.
History history_of(const HistoryLimits& limits = {}) {
  History history("round",
                  {{"objective", "objective", 4, Metric::Scale::kAboveLeast},
                   {"gap", "gap", 2, Metric::Scale::kPowers},
                   {"rank", "rank"}},
                  limits);
  history.add(1, 50, {100, 1, 7});
  history.add(2, 100, {10, std::nullopt, 9});
  history.add(3, 150, {4, 0.001, 8});
  return history;
}

TEST(History, IsJsonPointByPoint) {
  const Json list = history_of().json();
  ASSERT_EQ(list.size(), 3);
  EXPECT_EQ(list[0]["gap"], 1);
  EXPECT_TRUE(list[1]["gap"].is_null()) << "it was not measured";
  EXPECT_EQ(list[2]["updates"], 150);
  EXPECT_EQ(list[2]["rounds"], 3);
  EXPECT_LE(list[1]["seconds"], list[2]["seconds"]);
}

TEST(History, IsATableWithTheFirstPointAndTheLast) {
  const History history = history_of();
  for (const size_t rows : {2, 3, 12}) {
    const std::string table = history.table(rows);
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + std::min<int64_t>(3, rows));
    EXPECT_THAT(table, HasSubstr("rounds  updates  objective"));
    EXPECT_THAT(table, HasSubstr("100"));
    EXPECT_THAT(table, HasSubstr("0.001"));
  }
}

TEST(History, KeepsNoPointThatIsOnlyTold) {
  History history = history_of();
  std::vector<int64_t> told;
  history.observe([&](const HistoryPoint& point) { told.push_back(point.rounds); });
  history.add(4, 200, {4, std::nullopt, 8}, false);
  history.add(5, 250, {4, std::nullopt, 8});
  EXPECT_THAT(told, testing::ElementsAre(4, 5));
  EXPECT_EQ(history.points().size(), 4);
}

struct Held {
  History& history;
  template <class Archive>
  void state(Archive& archive) {
    archive(history);
  }
};

TEST(History, GoesOnFromWhatItHeld) {
  History history = history_of();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const double elapsed = history.seconds();
  Held first{history};
  const std::string held = schedmp::state_of(first);
  History again("round", history.metrics());
  Held second{again};
  schedmp::take_state(second, held);
  EXPECT_EQ(again.json(), history.json());
  EXPECT_GE(again.seconds(), elapsed);
  EXPECT_LT(again.seconds(), elapsed + 1);
  const double seconds = history.points().back().seconds;
  EXPECT_DOUBLE_EQ(history.rounds_per_second() * seconds, 3);
  EXPECT_EQ(History("round", {}).rounds_per_second(), 0);
}

TEST(History, SaysWhenALimitIsReached) {
  EXPECT_FALSE(history_of().limit_is_reached(1'000'000));
  EXPECT_FALSE(history_of({.most_rounds = 7}).limit_is_reached(6));
  EXPECT_TRUE(history_of({.most_rounds = 7}).limit_is_reached(7));
  History brief = history_of({.most_seconds = 0.01});
  std::this_thread::sleep_for(std::chrono::milliseconds(11));
  EXPECT_TRUE(brief.limit_is_reached(0));
  brief.begin();
  EXPECT_LT(brief.seconds(), 0.01) << "seconds count from there";
}

// ---- the picture

TEST(HistoryPicture, HasACurveForEachMetricOnItsOwnScale) {
  const std::string text = draw_history(history_of(), "Lasso & co");
  EXPECT_THAT(text, HasSubstr("Lasso &amp; co"));
  EXPECT_THAT(text, HasSubstr("objective, above the least"));
  // The objective from 24 times its least to 0, which is drawn at 1e-12; the gap from 1 to 0.001.
  for (const char* level : {">1e-12<", ">1e-3<", ">1e0<", ">7<", ">9<"})
    EXPECT_THAT(text, HasSubstr(level));
  EXPECT_THAT(text, Not(HasSubstr(">1e3<")));
}

TEST(HistoryPicture, TakesAnyNumbers) {
  History history("round", {{"a", "a"}, {"b", "b"}, {"c", "c"}});
  EXPECT_THAT(draw_history(history, "none"), HasSubstr("<svg"));
  history.add(1, 1, {0.3, 1, std::nullopt});
  history.add(2, 2, {0.1 + 0.2, HUGE_VAL, NAN});
  EXPECT_THAT(draw_history(history, "all"), Not(HasSubstr("inf")));
}

TEST(HistoryPicture, TakesASinglePointAndWhatWasNeverMeasured) {
  History history("round", {{"objective", "objective"}, {"gap", "gap"}});
  history.add(1, 1, {0, std::nullopt});
  const std::string text = draw_history(history, "one");
  EXPECT_THAT(text, HasSubstr(">objective<"));
  EXPECT_THAT(text, Not(HasSubstr(">gap<")));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

// ---- the bar

struct ToldOfHistory {
  std::string text;
  Progress::Time now{};
  Progress::Options options(bool terminal, int width = 200) {
    Progress::Options options;
    options.terminal = terminal;
    options.width = [width] { return width; };
    options.now = [this] { return now; };
    options.write = [this](const std::string& more) { text += more; };
    now += std::chrono::seconds(1);
    return options;
  }
};

TEST(HistoryProgress, FillsABarByRounds) {
  const History history = history_of({.most_rounds = 6});
  ToldOfHistory told;
  HistoryProgress progress(told.options(true), history);
  progress.tell(history.points()[0]);
  EXPECT_THAT(told.text, HasSubstr("[====                    ] round 1 of 6  objective 100"));
  progress.tell(history.points()[1]);
  EXPECT_THAT(told.text, Not(HasSubstr("round 2"))) << "ten times a second at most";
  told.now += std::chrono::seconds(1);
  progress.tell(history.points()[1]);
  EXPECT_THAT(told.text, HasSubstr("round 2 of 6  objective 10  gap 1  rank 9"))
      << "with the last gap that was measured";
  progress.finish();
  EXPECT_EQ(told.text.back(), '\n');
}

TEST(HistoryProgress, TakesAnotherMeasureOfTheWay) {
  const History history = history_of();
  ToldOfHistory told;
  HistoryProgress progress(told.options(true), history, [](const HistoryPoint&) { return 0.5; });
  progress.tell(history.points()[0]);
  EXPECT_THAT(told.text, HasSubstr("[============            ] round 1  "));
}

TEST(HistoryProgress, FitsTheTerminalAndIsSilentElsewhere) {
  const History history = history_of();
  ToldOfHistory narrow;
  HistoryProgress progress(narrow.options(true, 30), history);
  progress.tell(history.points()[2]);
  EXPECT_EQ(narrow.text.size(), std::string("\r\x1b[K").size() + 29);
  ToldOfHistory elsewhere;
  HistoryProgress silent(elsewhere.options(false), history);
  silent.tell(history.points()[2]);
  silent.finish();
  EXPECT_EQ(elsewhere.text, "");
}

}  // namespace
}  // namespace kerf::apps
