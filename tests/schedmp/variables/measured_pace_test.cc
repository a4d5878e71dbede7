#include "schedmp/variables/measured_pace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace kerf::schedmp {
namespace {

using std::chrono::milliseconds;

TEST(MeasuredPace, IsSecondsForAPiece) {
  int pieces = 0;
  const double seconds = measured_pace([&] {
    ++pieces;
    std::this_thread::sleep_for(milliseconds(5));
  });
  EXPECT_GE(seconds, 0.005);
  EXPECT_LE(seconds, kGoes * kSecondsOfGo) << "not of all goes together";
  EXPECT_GE(pieces, kGoes);
}

// What delays the first go or the last does not count, if one between was not delayed.
TEST(MeasuredPace, IsOfTheFastestGo) {
  constexpr milliseconds kDelay{200};
  const auto begin = std::chrono::steady_clock::now();
  const auto fast_until =
      begin + kDelay + std::chrono::duration<double>(kSecondsOfGo);  // the second go
  int pieces = 0;
  const double seconds = measured_pace([&] {
    ++pieces;
    if (pieces == 1 || std::chrono::steady_clock::now() > fast_until)
      std::this_thread::sleep_for(kDelay);
  });
  EXPECT_LT(seconds, 0.1);
  EXPECT_GT(pieces, kGoes);
}

// A piece that takes longer than a go is taken once in each.
TEST(MeasuredPace, TakesEveryGo) {
  int pieces = 0;
  const double seconds = measured_pace([&] {
    ++pieces;
    std::this_thread::sleep_for(milliseconds(60));
  });
  EXPECT_EQ(pieces, kGoes);
  EXPECT_GE(seconds, 0.06);
}

}  // namespace
}  // namespace kerf::schedmp
