// One endpoint whose peers are reached over different transports.
#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr size_t kBytes = 300'000;
const std::vector<TransportKind> kBoth{TransportKind::kShm, TransportKind::kTcp};

// Worker 2 is elsewhere.
TransportKind kind_between(int a, int b) {
  return a == 2 || b == 2 ? TransportKind::kTcp : TransportKind::kShm;
}

Wiring mixed(const Net& net, int self) {
  Wiring wiring = net.wiring(self, one_lane(kBytes, 2));
  for (const auto& [peer, address] : wiring.addresses)
    wiring.transports[peer] = kind_between(self, peer);
  return wiring;
}

TEST(ChannelPairs, CarryMessagesOverWhatEachPairWasGiven) {
  Net net(kBoth, 3);
  net.open([&](int self) { return mixed(net, self); });
  for (int32_t round = 0; round < 3; ++round)
    for (int from = 0; from < 3; ++from)
      for (int to = 0; to < 3; ++to) {
        if (from == to) continue;
        std::jthread sender(
            [&] { EXPECT_TRUE(send_message(net.sender(from, to), 0, kBytes, round)); });
        const auto view = net.receiver(from, to).receive(after(10s));
        ASSERT_TRUE(view) << from << " to " << to;
        EXPECT_TRUE(holds(*view, round)) << from << " to " << to;
        net.receiver(from, to).release(*view);
      }
}

// What a pair holds on both sides is for the pair to say: what worker 0 and 1 send each other lies
// once, what either exchanges with worker 2 lies at both.
TEST(ChannelPairs, HoldSlotsOnBothSidesWherePayloadTravels) {
  Net net(kBoth, 3);
  net.open([&](int self) { return mixed(net, self); });
  const size_t channel = (2 * ((kBytes + 63) / 64 * 64) + 4095) / 4096 * 4096;
  EXPECT_EQ(net[0].slot_bytes(), 3 * channel);
  EXPECT_EQ(net[1].slot_bytes(), 3 * channel);
  EXPECT_EQ(net[2].slot_bytes(), 4 * channel);
}

TEST(ChannelPairs, ThatDisagreeAreRefusedNamingBoth) {
  Net net(kBoth, 2);
  const auto thrown = net.try_open(
      [&](int self) {
        Wiring wiring = net.wiring(self, one_lane(8, 1));
        wiring.transports[1 - self] = self == 0 ? TransportKind::kShm : TransportKind::kTcp;
        return wiring;
      },
      3s);
  EXPECT_THAT(thrown, Contains(AllOf(HasSubstr("worker 0"), HasSubstr("worker 1"),
                                     HasSubstr("over tcp"), HasSubstr("shm"))));
}

TEST(ChannelPairs, OverWhatTheEndpointIsNotForAreRefused) {
  Net net(kBoth, 2);
  Wiring wiring = net.wiring(0, one_lane(8, 1));
  for (const auto kind : {TransportKind::kIpc, static_cast<TransportKind>(77)}) {
    Net other(kBoth, 2);
    wiring.transports[1] = kind;
    EXPECT_EQ(code_thrown_by([&] { other[0].open(wiring, after(1s)); }), ErrorCode::kProtocol);
  }
  EXPECT_EQ(code_thrown_by([&] { Net(static_cast<TransportKind>(77), 1); }), ErrorCode::kProtocol);
}

}  // namespace
}  // namespace kerf::runtime
