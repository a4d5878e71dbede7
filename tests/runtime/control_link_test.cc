// A link over a path that loses, repeats and breaks: every message arrives once and in order.
#include "runtime/control_link.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <utility>

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

// Two links and the path between them, driven by hand.
class Pair {
 public:
  explicit Pair(uint32_t seed) : random_(seed) {}

  // Of 100 frames, how many are lost, and how many come twice.
  int lose_percent = 0;
  int repeat_percent = 0;

  ControlLink left{[this](const std::string& frame) { carry(to_right_, frame); }};
  ControlLink right{[this](const std::string& frame) { carry(to_left_, frame); }};
  std::vector<std::string> at_left;
  std::vector<std::string> at_right;

  void run() {
    while (!to_left_.empty() || !to_right_.empty()) {
      deliver(to_left_, left, at_left);
      deliver(to_right_, right, at_right);
    }
  }
  // What was under way is gone, as when a connection breaks.
  void cut() {
    to_left_.clear();
    to_right_.clear();
  }

 private:
  bool chance(int percent) { return static_cast<int>(random_() % 100) < percent; }

  void carry(std::deque<std::string>& path, const std::string& frame) {
    if (chance(lose_percent)) return;
    path.push_back(frame);
    if (chance(repeat_percent)) path.push_back(frame);
  }

  static void deliver(std::deque<std::string>& path, ControlLink& link,
                      std::vector<std::string>& arrived) {
    if (path.empty()) return;
    const std::string bytes = std::move(path.front());
    path.pop_front();
    FrameFault fault = FrameFault::kNone;
    const auto frame = parse_frame(bytes, fault);
    ASSERT_TRUE(frame);
    if (auto message = link.receive(*frame)) arrived.push_back(std::move(message->payload));
  }

  std::mt19937 random_;
  std::deque<std::string> to_left_;
  std::deque<std::string> to_right_;
};

// Far enough in the future that everything is due.
void let_time_pass(Pair& pair, int steps) {
  auto now = Clock::now();
  for (int i = 0; i < steps; ++i) {
    now += 400ms;
    pair.left.tick(now);
    pair.right.tick(now);
    pair.run();
  }
}

std::vector<std::string> numbers(int count) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back(std::to_string(i));
  return all;
}

TEST(ControlLink, CarriesInOrder) {
  Pair pair(1);
  for (const auto& text : numbers(200)) pair.left.send({ControlType::kWork, text});
  pair.run();
  EXPECT_EQ(pair.at_right, numbers(200));
  let_time_pass(pair, 1);
  EXPECT_TRUE(pair.left.all_acknowledged());
}

TEST(ControlLink, WhatWasUnderWayWhenTheConnectionBrokeComesLater) {
  Pair pair(1);
  for (const auto& text : numbers(10)) pair.left.send({ControlType::kWork, text});
  pair.cut();
  let_time_pass(pair, 2);
  EXPECT_EQ(pair.at_right, numbers(10));
  EXPECT_EQ(pair.left.counters().resent, 10);
}

TEST(ControlLink, ALostPieceOfALargeMessageComesAgain) {
  Pair pair(3);
  const std::string large(3'500'000, 'x');
  pair.left.send({ControlType::kStart, large});
  pair.cut();
  pair.left.send({ControlType::kWork, "after"});
  pair.run();
  let_time_pass(pair, 2);
  ASSERT_EQ(pair.at_right.size(), 2u);
  EXPECT_TRUE(pair.at_right[0] == large);
  EXPECT_EQ(pair.at_right[1], "after");
}

// What is freed in blocks of 128 KiB and more has the heap of whoever frees it keep as much.
TEST(ControlLink, WhatIsLargerThanAFrameMayBeCrossesInSmallPieces) {
  std::vector<size_t> frames;
  ControlLink link([&](const std::string& frame) { frames.push_back(frame.size()); });
  constexpr size_t kOneFrame = kMaxControlBytes - sizeof(uint64_t);
  link.send({ControlType::kStart, std::string(kOneFrame, 'x')});
  EXPECT_EQ(std::exchange(frames, {}).size(), 1u);
  link.send({ControlType::kStart, std::string(kOneFrame + 1, 'x')});
  EXPECT_GT(frames.size(), 8u);
  for (const size_t bytes : frames) EXPECT_LT(bytes, size_t{128} << 10);
}

// A scheduler's side: whoever calls a message the start of a run need not be believed.
TEST(ControlLink, TakesNoMoreThanItIsMadeForWhateverTheType) {
  Pair pair(5);
  pair.right = ControlLink([](const std::string&) {}, kMaxControlMessage);
  const std::string largest(kMaxControlMessage, 'x');
  pair.left.send({ControlType::kStart, largest});
  pair.left.send({ControlType::kStart, largest + 'x'});
  pair.left.send({ControlType::kResults, "after"});
  pair.run();
  ASSERT_EQ(pair.at_right.size(), 2u);
  EXPECT_TRUE(pair.at_right[0] == largest);
  EXPECT_EQ(pair.at_right[1], "after");
  EXPECT_EQ(pair.right.counters().dropped, 1);
}

TEST(ControlLink, TrafficAcknowledgesTraffic) {
  Pair pair(4);
  for (int i = 0; i < 1000; ++i) {
    pair.left.send({ControlType::kWork, "w"});
    pair.run();
    pair.right.send({ControlType::kResults, "r"});
    pair.run();
  }
  EXPECT_TRUE(pair.left.all_acknowledged());
  EXPECT_EQ(pair.left.counters().resent + pair.right.counters().resent, 0);
}

class LossyLink : public testing::TestWithParam<uint32_t> {};

TEST_P(LossyLink, EveryMessageArrivesOnceAndInOrder) {
  Pair pair(GetParam());
  pair.lose_percent = 20;
  pair.repeat_percent = 20;
  for (const auto& text : numbers(300)) {
    pair.left.send({ControlType::kWork, text});
    pair.right.send({ControlType::kResults, text});
    if (text.back() == '7') pair.run();
    if (text == "150") pair.cut();
  }
  pair.run();
  let_time_pass(pair, 200);
  EXPECT_EQ(pair.at_right, numbers(300));
  EXPECT_EQ(pair.at_left, numbers(300));
}

INSTANTIATE_TEST_SUITE_P(Seeds, LossyLink, testing::Range(1u, 21u));

}  // namespace
}  // namespace kerf::runtime
