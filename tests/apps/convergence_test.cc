// What is told of a program that minimises something, while it runs and afterwards.
#include "apps/report/convergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/report/convergence_picture.h"

namespace kerf::apps {
namespace {

using testing::HasSubstr;

const std::vector<ConvergencePoint> kPoints = {{1, 0, 0.5, 100, 1},
                                               {2, 50, 1, 10, std::nullopt},
                                               {3, 100, 1.5, 5, 0.1},
                                               {4, 150, 2, 4, 0.001}};

TEST(Convergence, IsJsonPointByPoint) {
  const Json list = to_json(kPoints);
  ASSERT_EQ(list.size(), 4);
  EXPECT_EQ(list[0]["gap"], 1);
  EXPECT_TRUE(list[1]["gap"].is_null()) << "it was not computed";
  EXPECT_EQ(list[3]["updates"], 150);
}

TEST(Convergence, IsATableWithTheFirstPointAndTheLast) {
  for (const size_t rows : {2, 3, 12}) {
    const std::string table = convergence_table(kPoints, 50, rows);
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + std::min<int64_t>(4, rows));
    EXPECT_THAT(table, HasSubstr("0.0 "));
    EXPECT_THAT(table, HasSubstr("3.0 ")) << "passes of 50 updates";
    EXPECT_THAT(table, HasSubstr("0.001"));
  }
  EXPECT_THAT(convergence_table({kPoints[3]}, 50), HasSubstr("3.0 "));
}

// Three powers of ten from 1 to 0.001 for gaps, and 24 to 0 above the least objective, of which 0
// is drawn at 1e-12.
TEST(ConvergencePicture, HasPointsByPowersOfTenOverSeconds) {
  const std::string text = draw_convergence(kPoints, "Lasso & co");
  EXPECT_THAT(text, HasSubstr("Lasso &amp; co"));
  for (const char* power : {">1e-12<", ">1e-3<", ">1e0<", ">1e2<"})
    EXPECT_THAT(text, HasSubstr(power));
  EXPECT_THAT(text, testing::Not(HasSubstr(">1e3<")));
  // 84 + 620 x 1.5 s of 2, and 58 + 320 x (2 - -1) of the 14 powers from 2 down to -12.
  EXPECT_THAT(text, HasSubstr("x=\"547.5\" y=\"125.1\"")) << "a gap of 0.1";
  EXPECT_THAT(draw_convergence({{1, 0, 0, 0, 0}}, "y is 0"), HasSubstr(">1e-12<"));
}

struct Told {
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

// Gaps fall by factors: from 1 to 0.01, a tenth is half of the way.
TEST(ConvergenceProgress, HasABarThatIsFullAtTheTolerance) {
  Told told;
  ConvergenceProgress progress(told.options(true), 50, 0.01);
  const auto line = [&](const ConvergencePoint& point) {
    told.text.clear();
    told.now += std::chrono::seconds(1);
    progress.tell(point);
    return told.text;
  };
  EXPECT_THAT(line(kPoints[0]), HasSubstr("[                        ] pass 0.0"));
  EXPECT_THAT(line(kPoints[1]), HasSubstr("[                        ] pass 1.0")) << "as before";
  EXPECT_THAT(line(kPoints[2]), HasSubstr("[============            ] pass 2.0"));
  EXPECT_THAT(line(kPoints[3]), HasSubstr("[========================] pass 3.0"));
  EXPECT_THAT(told.text, HasSubstr("gap 0.001 of 0.01"));
  told.text.clear();
  progress.tell(kPoints[3]);
  EXPECT_EQ(told.text, "") << "ten times a second at most";
  progress.finish();
  EXPECT_EQ(told.text, "\n");
}

TEST(ConvergenceProgress, FitsTheTerminalAndIsSilentElsewhere) {
  Told narrow;
  ConvergenceProgress progress(narrow.options(true, 30), 50, 0.01);
  progress.tell(kPoints[2]);
  EXPECT_EQ(narrow.text.size(), std::string("\r\x1b[K").size() + 29);
  Told elsewhere;
  ConvergenceProgress silent(elsewhere.options(false), 50, 0.01);
  silent.tell(kPoints[2]);
  silent.finish();
  EXPECT_EQ(elsewhere.text, "");
}

}  // namespace
}  // namespace kerf::apps
