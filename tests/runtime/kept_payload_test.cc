// Payload that connections do not take by themselves, as tcp's: who sends it, and when.
#include <gtest/gtest.h>

#include <optional>

#include "tests/runtime/link_pair.h"

namespace kerf::runtime {
namespace {

constexpr int64_t kChunks = 3;  // of kBytes

class KeptPayload : public testing::Test {
 protected:
  KeptPayload() {
    EXPECT_TRUE(pair_.exchange.wait_until_taken(1, after(10s)));
    pair_.exchange.keep_payload(0);
  }
  Slot acquire() {
    const auto slot = pair_.sender(0).acquire(0, kBytes, after(10s));
    EXPECT_TRUE(slot);
    return slot.value_or(Slot{});
  }
  void commit(const Slot& slot, int seed) { pair_.sender(0).commit(slot, {seed, 0, 0, 0}); }
  int64_t sent_by_me() const { return pair_.exchange.sent_by_me(0); }
  int64_t sent_by_others() const { return pair_.exchange.sent_by_others(0); }

  Pair pair_;
};

// Its thread has computed before, and does so afterwards.
TEST_F(KeptPayload, IsSentByTheDataThreadForWhoComputes) {
  const Slot slot = acquire();
  std::this_thread::sleep_for(5ms);
  commit(slot, 1);
  EXPECT_EQ(sent_by_me(), 0) << "the copying would delay what it does next";
  for (const Deadline end = after(kSoon); sent_by_others() < kChunks && Clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(sent_by_others(), kChunks);
}

TEST_F(KeptPayload, IsSentAtOnceByWhoCallsOften) {
  std::jthread receiving([&] {
    while (const auto view = pair_.receiver(1).receive(after(300ms)))
      pair_.receiver(1).release(*view);
  });
  // It may always lose its processor between two calls.
  int64_t sent = 0;
  for (int i = 0; i < 100 && sent == 0; ++i) {
    const Slot slot = acquire();
    pair_.sender(0).abandon(acquire());
    const int64_t before = sent_by_me();
    commit(slot, i);
    sent = sent_by_me() - before;
  }
  EXPECT_EQ(sent, kChunks);
}

TEST_F(KeptPayload, IsSentByWhoWaits) {
  std::this_thread::sleep_for(5ms);
  for (int i = 0; i < 2; ++i) commit(acquire(), i);
  std::jthread receiving([&] {
    for (int i = 0; i < 2; ++i) {
      const auto view = pair_.receiver(1).receive(after(10s));
      ASSERT_TRUE(view);
      pair_.receiver(1).release(*view);
    }
  });
  EXPECT_TRUE(pair_[0].drain(after(10s)));
  EXPECT_EQ(sent_by_me() + sent_by_others(), 2 * kChunks);
}

// One that it leaves to the data thread and one that it sends itself: afterwards somebody still
// looks, now and then, whether there are answers.
TEST_F(KeptPayload, IsAskedAfterWhenNobodyAnswers) {
  const Slot first = acquire();
  const Slot second = acquire();
  std::this_thread::sleep_for(5ms);
  commit(first, 1);
  commit(second, 2);
  for (const Deadline end = after(10s);
       pair_.sender(0).counters().control_messages == 0 && Clock::now() < end;)
    std::this_thread::sleep_for(10ms);
  EXPECT_GT(pair_.sender(0).counters().control_messages, 0);
}

}  // namespace
}  // namespace kerf::runtime
