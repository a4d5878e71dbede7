// What a channel over sockets makes of peers that lie, message by message: it drops and counts what
// cannot be, and goes on. Over which transports: channel_hostile_test.cc.
#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/host_work.h"
#include "runtime/sockets/stream_socket.h"
#include "runtime/wire.h"
#include "tests/conformance/besieged_channel.h"
#include "tests/support/async_device.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

TEST_P(Besieged, DropsMessagesThatCameBefore) {
  expect_it_works();  // messages 0 to 3
  for (uint64_t sequence = 0; sequence < 4; ++sequence)
    intruder_.send(from_worker_0(PacketKind::kData, sequence), chunk(8));
  expect_dropped(4);
  expect_it_works();
}

TEST_P(Besieged, DropsSlotsThatDoNotExist) {
  const auto lie = [&](auto change) {
    PacketHeader head = from_worker_0(PacketKind::kData, 0);
    change(head);
    intruder_.send(head, chunk(8));
  };
  lie([](PacketHeader& head) { head.lane = 1; });
  lie([](PacketHeader& head) { head.lane = -1; });
  lie([](PacketHeader& head) { head.lane = INT32_MAX; });
  lie([](PacketHeader& head) { head.slot = 2; });
  lie([](PacketHeader& head) { head.slot = -1; });
  lie([](PacketHeader& head) { head.slot = INT32_MIN; });
  lie([](PacketHeader& head) { head.bytes = 65; });
  lie([](PacketHeader& head) { head.bytes = UINT64_MAX; });
  expect_dropped(8);
  expect_it_works();
}

TEST_P(Besieged, DropsChunksThatDoNotFit) {
  PacketHeader head = from_worker_0(PacketKind::kData, 0);
  intruder_.send(head, std::string(9, 'x'));  // more than the message, or any at all over shm
  head.offset = 4;
  if (GetParam() != TransportKind::kShm) intruder_.send(head, std::string(4, 'x'));  // a gap
  head.offset = UINT64_MAX;
  if (GetParam() != TransportKind::kShm) intruder_.send(head, std::string(4, 'x'));
  expect_dropped(GetParam() == TransportKind::kShm ? 1 : 3);
  expect_it_works();
}

TEST_P(Besieged, AsksAgainAcrossAGapAndGoesOn) {
  intruder_.send(from_worker_0(PacketKind::kData, 5), chunk(8));
  expect_dropped(1);
  expect_it_works();
  EXPECT_EQ(net_.receiver(0, 1).counters().messages, 4);
}

TEST_P(Besieged, DropsCreditsThatNobodyOwes) {
  for (const auto& [lane, slot, released] :
       std::vector<SlotName>{{0, 0, 7}, {0, 9, 0}, {-1, 0, 0}, {5, 5, 5}}) {
    PacketHeader credit = from_worker_0(PacketKind::kCredit, 0);
    credit.lane = lane;
    credit.slot = slot;
    credit.released = released;
    intruder_.send(credit);
  }
  PacketHeader state = from_worker_0(PacketKind::kState, 1'000);
  intruder_.send(state);
  intruder_.send(from_worker_0(PacketKind::kState, 0), std::string(5, 'x'));
  const Deadline deadline = after(5s);
  while (net_.sender(1, 0).counters().dropped < 6 && Clock::now() < deadline)
    EXPECT_FALSE(net_.receiver(0, 1).receive(after(10ms)));
  EXPECT_EQ(net_.sender(1, 0).counters().dropped, 6);
  EXPECT_TRUE(send_message(net_.sender(1, 0), 0, 8, 1));
  expect_it_works();
}

// A message that its device has yet to write lies committed and unsent.
TEST_P(HostileChannel, DropsCreditsForWhatWasNeverSent) {
  const auto world = std::make_shared<tests::AsyncWorld>(1);
  Net net(GetParam(), {make_cpu_device(), tests::make_async_device(world)});
  net.open([&](int self) { return net.wiring(self, one_lane(64, 2)); });
  Intruder intruder(net[1].address());
  std::atomic<bool> go{false};
  const auto stream = net.device(1).make_stream();
  launch(*stream, [&] { go.wait(false); });
  const auto slot = net.sender(1, 0).acquire(0, 64, after(10s));
  ASSERT_TRUE(slot);
  fill(*slot, 5);
  net.sender(1, 0).commit(*slot, {5, 0, 0, 0}, stream.get());
  PacketHeader credit = from_worker_0(PacketKind::kCredit, 0);
  credit.slot = slot->index;
  intruder.send(credit);
  for (const Deadline end = after(5s);
       net.sender(1, 0).counters().dropped == 0 && Clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(net.sender(1, 0).counters().dropped, 1);
  go = true;
  go.notify_all();
  const auto view = net.receiver(1, 0).receive(after(10s));
  ASSERT_TRUE(view);
  EXPECT_TRUE(holds(*view, 5));
}

// Each is the next message but for one lie, which alone tells it from the truth.
TEST_P(Besieged, DropsRandomLies) {
  constexpr int kLies = 2'000;
  std::mt19937_64 random(1);
  const auto any = [&] { return random() >> (random() % 64); };
  for (int i = 0; i < kLies; ++i) {
    PacketHeader head = from_worker_0(PacketKind::kData, 0);
    head.bytes = random() % 65;
    head.slot = static_cast<int32_t>(random() % 2);
    size_t body = random() % (head.bytes + 1);
    const uint64_t lie = random() % 6;
    // Over shared memory a body is a lie of its own.
    if (lie < 4 && GetParam() == TransportKind::kShm) body = 0;
    switch (lie) {
      case 0:
        head.lane = static_cast<int32_t>(any()) | 1;
        break;
      case 1:
        head.slot = static_cast<int32_t>(any()) | 2;
        break;
      case 2:
        head.bytes = std::max<uint64_t>(65, any());
        break;
      case 3:
        head.sequence = 1 + any() / 2;
        break;
      case 4:
        head.offset = std::max<uint64_t>(1, any());
        body = 1 + random() % 64;
        break;
      default:
        body = head.bytes + 1 + random() % 64;
    }
    intruder_.send(head, std::string(body, 'x'));
  }
  expect_dropped(kLies);
  expect_it_works();
}

// Two messages are under way, and the lies are of them as well as of what does not exist.
TEST_P(Besieged, DropsRandomCreditsAndStates) {
  constexpr int kLies = 2'000;
  std::array<int, 2> slot_of{};  // of message 0 and of message 1
  for (int i = 0; i < 2; ++i) {
    const auto slot = net_.sender(1, 0).acquire(0, 8, after(10s));
    ASSERT_TRUE(slot);
    fill(*slot, i);
    slot_of[i] = slot->index;
    net_.sender(1, 0).commit(*slot, {i, 0, 0, 0});
  }
  std::mt19937_64 random(1);
  const auto any = [&] { return random() >> (random() % 64); };
  const auto coin = [&] { return random() % 2 == 0; };
  for (int i = 0; i < kLies; ++i) {
    PacketHeader head = from_worker_0(PacketKind::kCredit, random() % 4);
    head.lane = coin() ? 0 : static_cast<int32_t>(any());
    const auto message = random() % 2;
    head.slot = coin() ? slot_of[message] : static_cast<int32_t>(any());
    head.released = coin() ? 1 - message : 2 + any() / 2;
    const bool is_true = head.lane == 0 && head.released < 2 &&
                         head.slot == slot_of[head.released] && head.sequence <= 2;
    if (is_true || coin()) {
      head.kind = PacketKind::kState;
      head.sequence = 3 + any() / 2;
    }
    intruder_.send(head, std::string(random() % 100, 'x'));
    // Before the connection is full, which nobody reads from who does not wait.
    if (i % 100 == 0) {
      EXPECT_FALSE(net_.receiver(0, 1).receive(after(0ms)));
    }
  }
  const Deadline deadline = after(5s);
  while (net_.sender(1, 0).counters().dropped < kLies && Clock::now() < deadline)
    EXPECT_FALSE(net_.receiver(0, 1).receive(after(1ms)));
  EXPECT_EQ(net_.sender(1, 0).counters().dropped, kLies);
  for (int i = 0; i < 2; ++i) {
    const auto view = net_.receiver(1, 0).receive(after(10s));
    ASSERT_TRUE(view);
    EXPECT_TRUE(holds(*view, i));
    net_.receiver(1, 0).release(*view);
  }
  EXPECT_TRUE(net_[1].drain(after(10s))) << "both slots are free again";
  expect_it_works();
}

// An endpoint that is reached over both, and a worker that comes both ways: the way that he took
// last is his, or two could write into one slot.
TEST(Endpoint, HasOneConnectionFromAWorker) {
  Net net(std::vector{TransportKind::kIpc, TransportKind::kTcp}, 2);
  net.open([&](int self) {
    Wiring wiring = net.wiring(self, one_lane(64, 2));
    wiring.transports[1 - self] = TransportKind::kTcp;
    return wiring;
  });
  Intruder tcp(address_over(TransportKind::kTcp, net[1].address()));
  Intruder ipc(address_over(TransportKind::kIpc, net[1].address()));
  PacketHeader head = from_worker_0(PacketKind::kData, 0);
  head.body_bytes = 8;
  seal(head, {});
  tcp.send({Intruder::bytes_of(head) + "half"});
  EXPECT_FALSE(net.receiver(0, 1).receive(after(50ms)));
  ipc.send(from_worker_0(PacketKind::kData, 0), "complete");
  const auto view = net.receiver(0, 1).receive(after(10s));
  ASSERT_TRUE(view);
  tcp.send({std::string("WAYS")});
  EXPECT_FALSE(net.receiver(0, 1).receive(after(50ms))) << "once";
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(view->data), 8), "complete");
}

// Two workers of different hosts, and an intruder who sends to the second.
class BesiegedFromAfar : public testing::Test {
 protected:
  BesiegedFromAfar() {
    net_.open([&](int self) {
      Wiring wiring = net_.wiring(self, one_lane(64, 2));
      wiring.elsewhere = {1 - self};
      return wiring;
    });
  }

  Net net_{TransportKind::kTcp, 2};
  Intruder intruder_{net_[1].address()};
};

TEST_F(BesiegedFromAfar, TakesNothingWithoutASum) {
  PacketHeader head = from_worker_0(PacketKind::kData, 0);
  intruder_.send(head, "unsummed");
  EXPECT_FALSE(net_.receiver(0, 1).receive(after(100ms)));
  EXPECT_EQ(net_.receiver(0, 1).counters().dropped, 1);
  head.flags = kSummed;
  intruder_.send(head, "is summed");
  EXPECT_FALSE(net_.receiver(0, 1).receive(after(100ms))) << "longer than its message";
  intruder_.send(head, "a sum is");
  const auto view = net_.receiver(0, 1).receive(after(10s));
  ASSERT_TRUE(view);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(view->data), 8), "a sum is");
}

// Otherwise the two would send it to and fro for ever.
TEST_F(BesiegedFromAfar, GivesUpWhatAlwaysComesDamaged) {
  PacketHeader head = from_worker_0(PacketKind::kData, 0);
  head.flags = kSummed;
  head.body_bytes = 8;
  seal(head, "original");
  const auto send_damaged = [&](int times) {
    for (int i = 0; i < times; ++i) intruder_.send({Intruder::bytes_of(head), "0riginal"});
  };
  send_damaged(31);
  intruder_.send({Intruder::bytes_of(head), "original"});
  const auto view = net_.receiver(0, 1).receive(after(10s));
  ASSERT_TRUE(view);
  net_.receiver(0, 1).release(*view);
  head.sequence = 1;
  seal(head, "original");
  send_damaged(32);
  const auto error = tests::error_of([&] { (void)net_.receiver(0, 1).receive(after(10s)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->message(), testing::HasSubstr("worker 0"));
}

// A peer that asks again and again, and reads nothing, would fill the sender's memory.
TEST(Endpoint, QueuesNoCopiesBehindCopies) {
  constexpr size_t kMoreThanASocketTakes = size_t{32} << 20;
  std::string unread;
  const OpenFile listener = listen_tcp(kLoopbackHost, unread);
  const auto endpoint = make_endpoint(TransportKind::kTcp, "worker 1", make_cpu_device());
  Wiring wiring;
  wiring.self = 1;
  wiring.epoch = 1;
  wiring.token = kTestToken;
  wiring.addresses[0] = unread;
  wiring.send[0] = one_lane(kMoreThanASocketTakes, 1);
  std::jthread opening([&] { endpoint->open(wiring, after(10s)); });
  std::optional<OpenFile> connection;
  while (!connection) connection = accept_connection(listener);  // from now on we are expected
  Intruder peer(endpoint->address());
  Hello hello;
  hello.transport = TransportKind::kTcp;
  hello.receive = wiring.send[0];
  peer.send(from_worker_0(PacketKind::kHello, 0), encode(hello));
  peer.send(from_worker_0(PacketKind::kWelcome, 0));
  opening.join();
  SendChannel& sender = endpoint->sender(0);
  ASSERT_TRUE(send_message(sender, 0, kMoreThanASocketTakes, 1));
  for (int i = 0; i < 100; ++i) peer.send(from_worker_0(PacketKind::kState, 0));
  peer.send(from_worker_0(PacketKind::kState, 1'000));  // of what was never sent
  for (const auto end = after(10s); sender.counters().dropped == 0 && Clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(sender.counters().dropped, 1);
  EXPECT_EQ(sender.counters().resent, 1);
}

}  // namespace
}  // namespace kerf::runtime
