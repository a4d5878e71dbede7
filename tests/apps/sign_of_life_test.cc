// A line on a terminal for what takes over two seconds.
#include "apps/report/sign_of_life.h"

#include <gtest/gtest.h>

namespace kerf::apps {
namespace {

using std::chrono::milliseconds;

struct LifeScreen {
  SignOfLife::Time now{};
  std::string text;
  SignOfLife::Options options(bool terminal = true, int width = 40) {
    return {terminal, [width] { return width; }, [this] { return now; },
            [this](const std::string& more) { text += more; }};
  }
};

TEST(SignOfLife, ComesAfterTwoSecondsAndGoesWithItsObject) {
  LifeScreen screen;
  {
    SignOfLife life(screen.options());
    screen.now += milliseconds(1900);
    life.tell("choosing", "layer");
    EXPECT_EQ(screen.text, "");
    screen.now += milliseconds(200);
    life.tell("choosing", "batch");
    EXPECT_EQ(screen.text, "\r\033[Kchoosing, 2 s: batch");
    life.tell("choosing", "too soon to be drawn again");
    EXPECT_EQ(screen.text, "\r\033[Kchoosing, 2 s: batch");
    screen.now += milliseconds(1000);
    screen.text.clear();
    life.tell("choosing", "what is longer than the terminal is wide");
    EXPECT_EQ(screen.text, "\r\033[Kchoosing, 3 s: what is longer than the ");
    screen.text.clear();
  }
  EXPECT_EQ(screen.text, "\r\033[K");
}

TEST(SignOfLife, IsForTerminals) {
  LifeScreen screen;
  {
    SignOfLife life(screen.options(false));
    screen.now += milliseconds(5000);
    life.tell("choosing", "batch");
  }
  EXPECT_EQ(screen.text, "");
}

}  // namespace
}  // namespace kerf::apps
