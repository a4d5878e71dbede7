// What every transport must do. The transports are named in channel_transports.cc.
#include <map>
#include <random>
#include <thread>

#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {
namespace {

Clock::duration elapsed(const std::function<void()>& action) {
  const Clock::time_point begin = Clock::now();
  action();
  return Clock::now() - begin;
}

TEST_P(ChannelOfSize, CarriesBytesAndTagsInOrder) {
  const auto [kind, bytes] = GetParam();
  constexpr int kMessages = 9;
  Net net(kind, 2, one_lane(bytes, 3));
  std::jthread sending([&, size = bytes] {
    for (int i = 0; i < kMessages; ++i) ASSERT_TRUE(send_message(net.sender(0, 1), 0, size, i));
    EXPECT_TRUE(net[0].drain(after(10s)));
  });
  for (int i = 0; i < kMessages; ++i) {
    const auto view = net.receiver(0, 1).receive(after(10s));
    ASSERT_TRUE(view);
    EXPECT_EQ(view->bytes, bytes);
    EXPECT_EQ(view->tag, (Tag{i, 0, -1, 7}));
    EXPECT_TRUE(aligned(view->data));
    EXPECT_TRUE(holds(*view, i)) << "message " << i;
    net.receiver(0, 1).release(*view);
  }
}

TEST_P(ChannelOfSize, CountsMessagesAndBytesExactly) {
  const auto [kind, bytes] = GetParam();
  Net net(kind, 2, one_lane(bytes, 4));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send_message(net.sender(0, 1), 0, bytes, i));
  EXPECT_EQ(net.receiver(0, 1).counters().messages, 0) << "counted when handed out";
  for (int i = 0; i < 3; ++i) {
    const auto view = net.receiver(0, 1).receive(after(10s));
    ASSERT_TRUE(view);
    net.receiver(0, 1).release(*view);
  }
  EXPECT_TRUE(net[0].drain(after(10s)));
  const ChannelCounters sent = net.sender(0, 1).counters();
  const ChannelCounters received = net.receiver(0, 1).counters();
  for (const ChannelCounters& counters : {sent, received}) {
    EXPECT_EQ(counters.messages, 3);
    EXPECT_EQ(counters.bytes, static_cast<int64_t>(3 * bytes));
  }
  // What is acknowledged late is sent again, and counts only here.
  EXPECT_EQ(received.dropped, sent.resent);
  EXPECT_EQ(sent.dropped + received.resent, 0);
#ifndef __SANITIZE_THREAD__  // where every acknowledgement may be late
  EXPECT_EQ(sent.resent, 0);
#endif
  EXPECT_EQ(net.sender(1, 0).counters().messages, 0);
  EXPECT_EQ(net[0].dropped() + net[1].dropped(), 0);
}

TEST_P(Channel, AlignsEverySlot) {
  Net net(GetParam(), 2, {{1, 3}, {65, 2}, {4097, 2}, {0, 2}});
  for (int lane = 0; lane < 4; ++lane)
    for (int i = 0; i < 2; ++i) {
      const auto slot = net.sender(0, 1).acquire(lane, 0, after(1s));
      ASSERT_TRUE(slot);
      EXPECT_NE(slot->data, nullptr);
      EXPECT_TRUE(aligned(slot->data));
    }
}

TEST_P(Channel, CarriesPartOfASlot) {
  Net net(GetParam(), 2, one_lane(1000, 1));
  ASSERT_TRUE(send_message(net.sender(0, 1), 0, 10, 1));
  const auto view = net.receiver(0, 1).receive(after(10s));
  ASSERT_TRUE(view);
  EXPECT_EQ(view->bytes, 10u);
  EXPECT_TRUE(holds(*view, 1));
}

//  slots:    0 1          acquire waits        release 0: acquire goes on
TEST_P(Channel, MakesAcquireWaitWhileAllSlotsAreTaken) {
  Net net(GetParam(), 2, one_lane(64, 2));
  ASSERT_TRUE(send_message(net.sender(0, 1), 0, 8, 0));
  ASSERT_TRUE(send_message(net.sender(0, 1), 0, 8, 1));
  EXPECT_FALSE(net.sender(0, 1).acquire(0, 8, after(20ms)));
  const auto view = net.receiver(0, 1).receive(after(10s));
  ASSERT_TRUE(view);
  EXPECT_FALSE(net.sender(0, 1).acquire(0, 8, after(20ms))) << "received, but not released";
  net.receiver(0, 1).release(*view);
  EXPECT_TRUE(send_message(net.sender(0, 1), 0, 8, 2));
  EXPECT_FALSE(net.sender(0, 1).acquire(0, 8, after(20ms)));
}

TEST_P(Channel, WakesAWaitingAcquireByARelease) {
  Net net(GetParam(), 2, one_lane(64, 1));
  ASSERT_TRUE(send_message(net.sender(0, 1), 0, 8, 0));
  std::jthread sending([&] { EXPECT_TRUE(send_message(net.sender(0, 1), 0, 8, 1)); });
  const auto first = net.receiver(0, 1).receive(after(10s));
  ASSERT_TRUE(first);
  std::this_thread::sleep_for(30ms);
  net.receiver(0, 1).release(*first);
  const auto second = net.receiver(0, 1).receive(after(10s));
  ASSERT_TRUE(second);
  EXPECT_TRUE(holds(*second, 1));
}

TEST_P(Channel, TakesAbandonedSlotsBack) {
  Net net(GetParam(), 2, one_lane(64, 1));
  for (int i = 0; i < 5; ++i) {
    const auto slot = net.sender(0, 1).acquire(0, 64, after(1s));
    ASSERT_TRUE(slot);
    net.sender(0, 1).abandon(*slot);
  }
  EXPECT_TRUE(net[0].drain(after(1s))) << "nothing was committed";
  EXPECT_FALSE(net.receiver(0, 1).receive(after(20ms)));
}

// The sender reads on in a slot that it committed: both ends have to be done with it.
TEST_P(Channel, KeepsARetainedSlotUntilBothEndsAreDone) {
  Net net(GetParam(), 2, one_lane(1 << 12, 1));
  SendChannel& sender = net.sender(0, 1);
  for (const bool released_first : {true, false, true}) {
    const auto slot = sender.acquire(0, 1 << 12, after(10s));
    ASSERT_TRUE(slot);
    fill(*slot, 5);
    sender.retain(*slot);
    sender.commit(*slot, {5, 0, 0, 0});
    const auto view = net.receiver(0, 1).receive(after(10s));
    ASSERT_TRUE(view);
    EXPECT_TRUE(holds(*view, 5));
    const auto release = [&] { net.receiver(0, 1).release(*view); };
    const auto retire = [&] { sender.retire(*slot); };
    released_first ? release() : retire();
    EXPECT_FALSE(sender.acquire(0, 1, after(20ms)))
        << (released_first ? "the sender reads it" : "the receiver reads it");
    EXPECT_TRUE(std::equal(slot->data, slot->data + slot->bytes, pattern_of(5, 1 << 12).begin()));
    released_first ? retire() : release();
    EXPECT_TRUE(net[0].drain(after(10s)));
  }
  EXPECT_TRUE(send_message(sender, 0, 8, 1)) << "retained no longer";
}

TEST_P(Channel, TakesReleasesInAnyOrder) {
  Net net(GetParam(), 2, one_lane(1 << 12, 4));
  int32_t sent = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<View> views;
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(send_message(net.sender(0, 1), 0, 1 << 12, sent++));
    for (int i = 0; i < 4; ++i) {
      views.push_back(net.receiver(0, 1).receive(after(10s)).value());
      EXPECT_TRUE(holds(views.back(), sent - 4 + i));
    }
    for (const int i : {2, 0, 3, 1}) net.receiver(0, 1).release(views[i]);
  }
  EXPECT_TRUE(net[0].drain(after(10s)));
}

TEST_P(Channel, KeepsTheOrderOfCommitsOverAllLanes) {
  constexpr int kLanes = 40;
  std::vector<Lane> lanes;
  for (int lane = 0; lane < kLanes; ++lane)
    lanes.push_back({static_cast<uint64_t>(lane * 100), 1 + lane % 3});
  Net net(GetParam(), 2, lanes);
  std::mt19937 random(7);
  std::vector<Slot> slots;
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < lanes[lane].slots; ++i)
      slots.push_back(net.sender(0, 1).acquire(lane, lanes[lane].slot_bytes, after(1s)).value());
  std::shuffle(slots.begin(), slots.end(), random);
  for (size_t i = 0; i < slots.size(); ++i) {
    fill(slots[i], i);
    net.sender(0, 1).commit(slots[i], {static_cast<int32_t>(i), 0, 0, 0});
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto view = net.receiver(0, 1).receive(after(10s));
    ASSERT_TRUE(view);
    EXPECT_EQ(view->tag[0], static_cast<int32_t>(i));
    EXPECT_EQ(view->lane, slots[i].lane);
    EXPECT_TRUE(holds(*view, i));
    net.receiver(0, 1).release(*view);
  }
}

// Each worker sends to both others and takes from both; credits run against the data.
TEST_P(Channel, CarriesAllToAllAtOnce) {
  constexpr int kWorkers = 3;
  constexpr int kMessages = 60;
  constexpr size_t kBytes = 20'000;
  Net net(GetParam(), kWorkers, {{kBytes, 2}, {kBytes, 1}});
  const auto work = [&](int self) {
    for (int i = 0; i < kMessages; ++i) {
      for (int peer = 0; peer < kWorkers; ++peer) {
        if (peer == self) continue;
        ASSERT_TRUE(send_message(net.sender(self, peer), i % 2, kBytes - i, self * 1000 + i));
      }
      for (int peer = 0; peer < kWorkers; ++peer) {
        if (peer == self) continue;
        const auto view = net.receiver(peer, self).receive(after(10s));
        ASSERT_TRUE(view);
        EXPECT_EQ(view->tag[0], peer * 1000 + i);
        EXPECT_TRUE(holds(*view, peer * 1000 + i));
        net.receiver(peer, self).release(*view);
      }
    }
    EXPECT_TRUE(net[self].drain(after(10s)));
  };
  std::vector<std::jthread> workers;
  for (int i = 0; i < kWorkers; ++i) workers.emplace_back(work, i);
}

// Random lanes, sizes, holding times and orders of release: nothing lost, nothing twice, no byte
// changed while it is held.
TEST_P(Channel, SurvivesRandomUse) {
  const std::vector<Lane> lanes{{100, 3}, {70'000, 2}, {1'500'000, 2}};
  constexpr int kMessages = 200;
  Net net(GetParam(), 2, lanes);
  std::jthread sending([&] {
    std::mt19937 random(1);
    for (int i = 0; i < kMessages; ++i) {
      const int lane = static_cast<int>(random() % lanes.size());
      ASSERT_TRUE(send_message(net.sender(0, 1), lane, random() % (lanes[lane].slot_bytes + 1), i));
    }
    EXPECT_TRUE(net[0].drain(after(20s)));
  });
  std::mt19937 random(2);
  std::vector<View> held;
  for (int i = 0; i < kMessages; ++i) {
    while (!held.empty() && (held.size() >= 2 || random() % 2 == 0)) {
      std::swap(held[random() % held.size()], held.back());
      EXPECT_TRUE(holds(held.back(), held.back().tag[0]));
      net.receiver(0, 1).release(held.back());
      held.pop_back();
    }
    auto view = net.receiver(0, 1).receive(after(50ms));
    while (!view && !held.empty()) {  // the sender may need what we hold
      net.receiver(0, 1).release(held.back());
      held.pop_back();
      view = net.receiver(0, 1).receive(after(50ms));
    }
    if (!view) view = net.receiver(0, 1).receive(after(20s));
    ASSERT_TRUE(view);
    EXPECT_EQ(view->tag[0], i);
    held.push_back(*view);
  }
  for (const View& view : held) net.receiver(0, 1).release(view);
}

TEST_P(Channel, KeepsDeadlines) {
  Net net(GetParam(), 2, one_lane(64, 1));
  ASSERT_TRUE(send_message(net.sender(0, 1), 0, 1, 0));
  const auto acquiring =
      elapsed([&] { EXPECT_FALSE(net.sender(0, 1).acquire(0, 1, after(60ms))); });
  const auto receiving = elapsed([&] { EXPECT_FALSE(net.receiver(1, 0).receive(after(60ms))); });
  const auto draining = elapsed([&] { EXPECT_FALSE(net[0].drain(after(60ms))); });
  for (const Clock::duration took : {acquiring, receiving, draining}) {
    EXPECT_GE(took, 60ms);
    EXPECT_LT(took, 1s);
  }
  const auto late = elapsed([&] { EXPECT_FALSE(net.receiver(1, 0).receive(after(-1s))); });
  EXPECT_LT(late, 500ms) << "a deadline in the past only looks";
}

TEST_P(Channel, DrainWaitsForReleases) {
  Net net(GetParam(), 2, one_lane(64, 2));
  ASSERT_TRUE(send_message(net.sender(0, 1), 0, 8, 0));
  const auto view = net.receiver(0, 1).receive(after(10s));
  ASSERT_TRUE(view);
  EXPECT_FALSE(net[0].drain(after(30ms)));
  net.receiver(0, 1).release(*view);
  EXPECT_TRUE(net[0].drain(after(10s)));
  EXPECT_TRUE(net[1].drain(after(10s))) << "it sent nothing";
}

// Who serves many peers waits for any of them.
TEST_P(Channel, AWaitEndsWithAMessageFromAnyPeer) {
  Net net(GetParam(), 3, one_lane(64, 1));
  for (const int from : {1, 2}) {
    std::jthread sending([&] {
      std::this_thread::sleep_for(20ms);
      ASSERT_TRUE(send_message(net.sender(from, 0), 0, 8, from));
    });
    std::optional<View> view;
    while (!(view = net.receiver(from, 0).receive(after(-1s)))) net[0].wait(after(10s));
    EXPECT_TRUE(holds(*view, from));
    net.receiver(from, 0).release(*view);
  }
}

TEST_P(Channel, AWaitEndsWithASlotThatComesFree) {
  Net net(GetParam(), 2, one_lane(64, 1));
  ASSERT_TRUE(send_message(net.sender(0, 1), 0, 8, 0));
  std::jthread receiving([&] {
    const auto view = net.receiver(0, 1).receive(after(10s));
    ASSERT_TRUE(view);
    std::this_thread::sleep_for(20ms);
    net.receiver(0, 1).release(*view);
  });
  const auto late = after(10s);
  while (!send_message(net.sender(0, 1), 0, 8, 1, after(-1s)) && Clock::now() < late)
    net[0].wait(late);
  EXPECT_LT(Clock::now(), late);
}

TEST_P(Channel, AWaitEndsWithAWakeAtOnceOrLater) {
  Net net(GetParam(), 2, one_lane(64, 1));
  while (elapsed([&] { net[0].wait(after(50ms)); }) < 50ms) {
  }  // what opening told
  net[0].wake();
  EXPECT_LT(elapsed([&] { net[0].wait(after(10s)); }), 5s) << "woken before";
  EXPECT_GE(elapsed([&] { net[0].wait(after(50ms)); }), 50ms) << "once";
  std::jthread waking([&] {
    std::this_thread::sleep_for(20ms);
    net[0].wake();
  });
  EXPECT_LT(elapsed([&] { net[0].wait(after(10s)); }), 5s);
}

TEST_P(Channel, InterruptEndsAWait) {
  Net net(GetParam(), 2, one_lane(64, 1));
  std::jthread interrupting([&] {
    std::this_thread::sleep_for(20ms);
    net[0].interrupt();
  });
  const auto late = after(10s);
  EXPECT_EQ(code_thrown_by([&] {
              while (Clock::now() < late) net[0].wait(late);
            }),
            ErrorCode::kInterrupted);
}

TEST_P(Channel, InterruptWakesWhoeverWaits) {
  for (const bool receives : {true, false}) {
    Net net(GetParam(), 2, one_lane(64, 1));
    ASSERT_TRUE(send_message(net.sender(0, 1), 0, 1, 0));
    std::jthread interrupting([&] {
      std::this_thread::sleep_for(50ms);
      net[0].interrupt();
    });
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(code_thrown_by([&] {
                if (receives)
                  std::ignore = net.receiver(1, 0).receive(after(20s));
                else
                  std::ignore = net.sender(0, 1).acquire(0, 1, after(20s));
              }),
              ErrorCode::kInterrupted);
    EXPECT_LT(Clock::now() - begin, 5s);
    EXPECT_EQ(code_thrown_by([&] { std::ignore = net.sender(0, 1).acquire(0, 1, after(1s)); }),
              ErrorCode::kInterrupted);
    EXPECT_EQ(code_thrown_by([&] { std::ignore = net.receiver(1, 0).receive(after(1s)); }),
              ErrorCode::kInterrupted);
    EXPECT_EQ(code_thrown_by([&] { std::ignore = net[0].drain(after(1s)); }),
              ErrorCode::kInterrupted);
  }
}

TEST_P(Channel, AnswersMisuseWithABug) {
  Net net(GetParam(), 2, one_lane(64, 1));
  SendChannel& sender = net.sender(0, 1);
  ReceiveChannel& receiver = net.receiver(0, 1);
  const auto bug = [](const std::function<void()>& action) {
    EXPECT_EQ(code_thrown_by(action), ErrorCode::kInternal);
  };
  bug([&] { std::ignore = sender.acquire(0, 65, after(1s)); });
  bug([&] { std::ignore = sender.acquire(1, 1, after(1s)); });
  bug([&] { std::ignore = sender.acquire(-1, 1, after(1s)); });
  const Slot slot = sender.acquire(0, 64, after(1s)).value();
  sender.commit(slot, {});
  bug([&] { sender.commit(slot, {}); });
  bug([&] { sender.abandon(slot); });
  const View view = receiver.receive(after(10s)).value();
  bug([&] { net.receiver(1, 0).release(view); });
  receiver.release(view);
  bug([&] { receiver.release(view); });
}

TEST_P(Channel, ADeadPeerHangsNobody) {
  Net net(GetParam(), 2, one_lane(4096, 2));
  ASSERT_TRUE(send_message(net.sender(0, 1), 0, 4096, 0));
  net.destroy(1);
  ASSERT_TRUE(send_message(net.sender(0, 1), 0, 4096, 1));
  const Clock::time_point begin = Clock::now();
  EXPECT_FALSE(net.sender(0, 1).acquire(0, 1, after(100ms)));
  EXPECT_FALSE(net.receiver(1, 0).receive(after(100ms)));
  EXPECT_FALSE(net[0].drain(after(100ms)));
  net.destroy(0);
  EXPECT_LT(Clock::now() - begin, 3s);
}

// A channel's slots lie with its sender, and with its receiver too where payload travels; each of
// the two here has one channel to send and one to receive over. Whole pages, slots at multiples of
// 64.
TEST_P(Channel, SaysHowMuchSlotMemoryItTook) {
  Net net(GetParam(), 2);
  const auto taken = [&] { return net[0].slot_bytes() + net.device(0).memory().current; };
  EXPECT_EQ(taken(), 0u);
  net.open([&](int self) { return net.wiring(self, {{1 << 20, 3}, {100, 2}}); });
  constexpr size_t kSlots = (3u << 20) + 2 * 128;
  constexpr size_t kChannel = (kSlots + 4095) / 4096 * 4096;
  EXPECT_EQ(taken(), mirrors_slots(GetParam()) ? 2 * kChannel : kChannel);
}

// What was counted apart, over all channels of an endpoint.
TEST_P(Channel, AnEndpointSumsItsChannelsUp) {
  Net net(GetParam(), 3, one_lane(64, 1));
  for (const int peer : {1, 2}) {
    ASSERT_TRUE(send_message(net.sender(0, peer), 0, 10 * static_cast<size_t>(peer), peer));
    const View view = net.receiver(0, peer).receive(after(10s)).value();
    net.receiver(0, peer).release(view);
  }
  EXPECT_EQ(net[0].counters().messages, 2);
  EXPECT_EQ(net[0].counters().bytes, 30);
  EXPECT_EQ(net[2].counters().messages, 1);
  EXPECT_EQ(net[2].counters().bytes, 20);
  EXPECT_EQ(net[0].counters().dropped + net[0].counters().resent, 0);
}

}  // namespace
}  // namespace kerf::runtime
