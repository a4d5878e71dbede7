#include "runtime/reliable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <random>
#include <vector>

namespace kerf::runtime {
namespace {

using Verdict = ReceiveWindow::Verdict;

TEST(SendWindow, KeepsWhatWasNotAcknowledged) {
  SendWindow<char> window;
  EXPECT_EQ(window.number('a'), 0u);
  EXPECT_EQ(window.number('b'), 1u);
  EXPECT_EQ(window.number('c'), 2u);
  window.acknowledged(1);
  window.acknowledged(0);  // an old acknowledgement changes nothing
  std::vector<std::pair<uint64_t, char>> again;
  const auto note = [&](uint64_t number, char message) { again.emplace_back(number, message); };
  EXPECT_EQ(window.resend_from(0, note), 2);
  EXPECT_EQ(window.resend_from(2, note), 1);
  EXPECT_THAT(again, testing::ElementsAre(testing::Pair(1, 'b'), testing::Pair(2, 'c'),
                                          testing::Pair(2, 'c')));
  window.acknowledged(1'000);  // beyond what was sent
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(window.next(), 3u);
}

TEST(ReceiveWindow, TellsNewFromOldAndFromTooNew) {
  ReceiveWindow window;
  EXPECT_EQ(window.see(0), Verdict::kDeliver);
  EXPECT_EQ(window.see(0), Verdict::kDuplicate);
  EXPECT_EQ(window.see(2), Verdict::kGap);
  EXPECT_EQ(window.see(1), Verdict::kDeliver);
  EXPECT_EQ(window.next(), 2u);
}

// A path that keeps order but drops what it likes, in both directions: everything arrives once.
TEST(Reliable, DeliversOnceInOrderOverALossyPath) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto lost = [&] { return random() % 3 == 0; };
    SendWindow<int> sender;
    ReceiveWindow receiver;
    std::deque<std::pair<uint64_t, int>> path;
    const auto send = [&](uint64_t number, int message) {
      if (!lost()) path.emplace_back(number, message);
    };
    std::vector<int> delivered;
    for (int i = 0; delivered.size() < 100; ++i) {
      ASSERT_LT(i, 100'000) << "stuck";
      if (sender.next() < 100) {
        const int message = static_cast<int>(sender.next());
        send(sender.number(message), message);
      }
      while (!path.empty()) {
        const auto [number, message] = path.front();
        path.pop_front();
        if (receiver.see(number) == Verdict::kDeliver) delivered.push_back(message);
      }
      if (lost()) continue;  // the answer
      sender.acknowledged(receiver.next());
      sender.resend_from(receiver.next(), send);
    }
    for (int i = 0; i < 100; ++i) EXPECT_EQ(delivered[i], i);
  }
}

}  // namespace
}  // namespace kerf::runtime
