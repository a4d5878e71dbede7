// Channels over connections that break: every message still arrives once, whole and in order.
#include <future>
#include <random>
#include <thread>

#include "runtime/link/packet_socket.h"
#include "tests/conformance/channel_fixture.h"
#include "tests/support/no_places.h"
#include "tests/support/tcp_proxy.h"

namespace kerf::runtime {
namespace {

template <class Condition>
bool comes_true(const Condition& condition, Deadline deadline) {
  while (!condition() && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
  return condition();
}

// Two endpoints over tcp with a proxy before each.
class BrokenConnection : public testing::Test {
 protected:
  // `are_apart`: the two are on different hosts.
  void open(const std::vector<Lane>& lanes, bool are_apart = false) {
    net_.open([&](int self) {
      Wiring wiring = net_.wiring(self, lanes);
      if (are_apart) wiring.elsewhere = {1 - self};
      wiring.addresses[1 - self] = self == 0 ? to_1_.address() : to_0_.address();
      return wiring;
    });
  }

  // Messages of every size up to the lane's cross as they were sent.
  void expect_sound(int messages, size_t most) {
    std::jthread sending([&] {
      for (int i = 0; i < messages; ++i)
        ASSERT_TRUE(send_message(net_.sender(0, 1), 0, i * most / messages, i, after(30s)));
      EXPECT_TRUE(net_[0].drain(after(30s)));
    });
    for (int i = 0; i < messages; ++i) {
      const auto view = net_.receiver(0, 1).receive(after(30s));
      ASSERT_TRUE(view) << "message " << i;
      EXPECT_EQ(view->bytes, i * most / messages);
      EXPECT_TRUE(holds(*view, i)) << "message " << i;
      net_.receiver(0, 1).release(*view);
    }
  }

  Net net_{TransportKind::kTcp, 2};
  tests::TcpProxy to_0_{net_[0].address()};
  tests::TcpProxy to_1_{net_[1].address()};
};

// Cuts follow the messages, not a clock: between two of them more messages pass than there are
// slots, so that each cut meets connections that live, on a fast machine and on a slow one.
TEST_F(BrokenConnection, LosesNothingAndRepeatsNothing) {
  constexpr int kMessages = 180;
  constexpr int kBetweenCuts = 30;
  const std::vector<Lane> lanes{{2'500'000, 2}, {5'000, 3}};
  open(lanes);
  auto sending = std::async(std::launch::async, [&] {
    std::mt19937 random(1);
    for (int i = 0; i < kMessages; ++i) {
      const int lane = static_cast<int>(random() % 2);
      const size_t bytes = random() % (lanes[lane].slot_bytes + 1);
      if (!send_message(net_.sender(0, 1), lane, bytes, i, after(30s))) return false;
    }
    return net_[0].drain(after(30s));
  });
  std::mt19937 random(1);
  for (int i = 0; i < kMessages; ++i) {
    const auto view = net_.receiver(0, 1).receive(after(30s));
    ASSERT_TRUE(view) << "message " << i;
    const int lane = static_cast<int>(random() % 2);
    EXPECT_EQ(view->tag[0], i);
    EXPECT_EQ(view->lane, lane);
    EXPECT_EQ(view->bytes, random() % (lanes[lane].slot_bytes + 1));
    EXPECT_TRUE(holds(*view, i)) << "message " << i;
    const bool cutting = i % kBetweenCuts == kBetweenCuts / 2;
    if (cutting) to_1_.swallow();
    net_.receiver(0, 1).release(*view);  // and the sender sends the next into the void
    if (!cutting) continue;
    // It may have no slot of the lane that is next, and send nothing.
    comes_true([&] { return to_1_.swallowed() > 0; }, after(100ms));
    to_1_.cut();
    to_0_.cut();
  }
  // The last credits may be lost as well; the sender asks for them while it drains.
  while (sending.wait_for(0s) != std::future_status::ready)
    EXPECT_FALSE(net_.receiver(0, 1).receive(after(100ms)));
  EXPECT_TRUE(sending.get()) << "not all was sent and released";
  EXPECT_GT(net_.sender(0, 1).counters().resent, 0);
  EXPECT_GE(to_0_.cuts(), kMessages / kBetweenCuts);
  EXPECT_GE(to_1_.cuts(), kMessages / kBetweenCuts);
  EXPECT_EQ(net_.sender(0, 1).counters().messages, kMessages);
  EXPECT_EQ(net_.receiver(0, 1).counters().messages, kMessages);
}

// A bit in so many bytes: of some messages several, and of what is sent again some as well.
TEST_F(BrokenConnection, WhatANetworkChangesIsSentAgain) {
  open({{2'500'000, 2}}, /*are_apart=*/true);
  to_1_.damage(900'000);
  expect_sound(16, 2'500'000);
  EXPECT_GT(to_1_.damaged(), 20);
  EXPECT_GE(net_.receiver(0, 1).counters().dropped, 10) << "chunks";
  EXPECT_GE(net_.sender(0, 1).counters().resent, 5);
  EXPECT_EQ(net_.sender(0, 1).counters().messages, 16);
}

// Headers: nothing tells then where the next packet begins.
TEST_F(BrokenConnection, AHeaderThatANetworkChangesEndsItsConnection) {
  open({{64, 2}}, /*are_apart=*/true);
  to_1_.damage(1'500);
  expect_sound(40, 64);
  EXPECT_GE(to_1_.damaged(), 2);
  EXPECT_GE(to_1_.accepted(), 3) << "and another begins";
}

TEST_F(BrokenConnection, WhatIsSlowArrives) {
  open({{500'000, 2}}, /*are_apart=*/true);
  to_1_.slow_down(5);
  to_0_.slow_down(5);
  expect_sound(20, 500'000);
  EXPECT_EQ(net_.sender(0, 1).counters().resent, 0) << "it was only late";
}

TEST_F(BrokenConnection, WhichIsHalfClosedIsMadeAgain) {
  open({{500'000, 2}}, /*are_apart=*/true);
  for (int i = 0; i < 3; ++i) {
    expect_sound(4, 500'000);
    to_1_.half_close();
  }
  expect_sound(4, 500'000);
  EXPECT_GE(to_1_.accepted(), 3);
}

// Nobody speaks there: whoever does is no worker, unless it is a word now and then.
TEST_F(BrokenConnection, OnWhichSomebodyAnswersIsMadeAgain) {
  constexpr int kWords = 3;
  open({{500'000, 2}}, /*are_apart=*/true);
  for (int i = 0; i < kWords; ++i) {
    expect_sound(4, 500'000);
    const int64_t before = to_1_.accepted();
    to_1_.answer();
    expect_sound(4, 500'000);
    EXPECT_TRUE(comes_true([&] { return to_1_.accepted() > before; }, after(20s)));
  }
  expect_sound(4, 500'000);
  EXPECT_GE(net_[0].dropped(), kWords) << "and counted";
  EXPECT_EQ(net_.receiver(0, 1).counters().messages, 4 * (2 * kWords + 1));
}

// Nobody touches the receiving socket while the connection comes back: then the new connection is
// there before the end of the old one was noticed.
TEST(BrokenSocket, IsMendedWhileNobodyReads) {
  const auto sending = make_packet_socket("worker 0", {"tcp"});
  const auto receiving = make_packet_socket("worker 1", {"tcp"});
  tests::TcpProxy proxy(receiving->address());
  sending->identify(0, 1, kTestToken);
  receiving->identify(1, 1, kTestToken);
  sending->connect(1, proxy.address());
  receiving->connect(0, sending->address());
  const auto send = [&](uint64_t sequence) {
    PacketHeader head;
    head.kind = PacketKind::kProbe;
    head.sequence = sequence;
    sending->send(1, head);
  };
  tests::NoPlaces places;
  const auto receive = [&] {
    for (const Deadline end = after(10s); Clock::now() < end; receiving->wait(after(10ms))) {
      EXPECT_FALSE(places.receive(*sending)) << "but it sends";
      if (const auto packet = places.receive(*receiving)) return packet->head.sequence;
    }
    return uint64_t{0};
  };
  send(1);
  ASSERT_EQ(receive(), 1U);
  proxy.cut();
  const auto is_connected_again = [&] {
    EXPECT_FALSE(places.receive(*sending));
    return proxy.accepted() > 1;
  };
  ASSERT_TRUE(comes_true(is_connected_again, after(20s)));
  send(2);
  EXPECT_EQ(receive(), 2U);
}

// Worker 1 has released, and computes.
TEST_F(BrokenConnection, ReturnsCreditsThatWereLost) {
  open({{64, 1}});
  ASSERT_TRUE(send_message(net_.sender(0, 1), 0, 8, 0));
  const auto view = net_.receiver(0, 1).receive(after(10s));
  ASSERT_TRUE(view);
  to_0_.swallow();
  net_.receiver(0, 1).release(*view);
  ASSERT_TRUE(comes_true([&] { return to_0_.swallowed() > 0; }, after(20s)));
  to_0_.cut();
  EXPECT_FALSE(net_.sender(0, 1).acquire(0, 8, after(300ms))) << "the credit was lost";
  EXPECT_TRUE(net_.sender(0, 1).acquire(0, 8, after(20s)));
  EXPECT_GT(net_.sender(0, 1).counters().control_messages, 0) << "it asked";
}

// Its thread has sent all it had to send, and waits for its next work elsewhere.
TEST_F(BrokenConnection, WhoIsElsewhereSendsAgainWhatWasLost) {
  open({{64, 3}});
  to_1_.swallow();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send_message(net_.sender(0, 1), 0, 64, i));
  ASSERT_TRUE(comes_true([&] { return to_1_.swallowed() >= 3 * 64; }, after(20s)));
  to_1_.cut();
  for (int i = 0; i < 3; ++i) {
    const auto view = net_.receiver(0, 1).receive(after(20s));
    ASSERT_TRUE(view);
    EXPECT_TRUE(holds(*view, i));
    net_.receiver(0, 1).release(*view);
  }
  EXPECT_GE(net_.sender(0, 1).counters().resent, 3);
  EXPECT_EQ(net_.sender(0, 1).counters().messages, 3) << "resends are counted apart";
}

TEST_F(BrokenConnection, SendsAgainWhatWasLost) {
  open({{3'000'000, 3}});
  to_1_.swallow();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send_message(net_.sender(0, 1), 0, 3'000'000, i));
  ASSERT_TRUE(comes_true([&] { return to_1_.swallowed() >= 3 * 3'000'000; }, after(20s)));
  to_1_.cut();
  std::jthread draining([&] { EXPECT_TRUE(net_[0].drain(after(20s))); });
  for (int i = 0; i < 3; ++i) {
    const auto view = net_.receiver(0, 1).receive(after(20s));
    ASSERT_TRUE(view);
    EXPECT_TRUE(holds(*view, i));
    net_.receiver(0, 1).release(*view);
  }
  draining.join();
  EXPECT_EQ(net_.sender(0, 1).counters().resent, 3);
  EXPECT_EQ(net_.sender(0, 1).counters().messages, 3) << "resends are counted apart";
}

}  // namespace
}  // namespace kerf::runtime
