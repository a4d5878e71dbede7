// How every transport opens its channels; part of the suite of channel_conformance_test.cc.
#include <thread>

#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {
namespace {

using testing::HasSubstr;

TEST_P(Channel, InterruptWakesOpen) {
  Net net(GetParam(), 2);
  std::jthread interrupting([&] {
    std::this_thread::sleep_for(50ms);
    net[0].interrupt();
  });
  EXPECT_EQ(code_thrown_by([&] { net[0].open(net.wiring(0, one_lane(1, 1)), after(20s)); }),
            ErrorCode::kInterrupted);
}

TEST_P(Channel, OpenNamesThePeerThatIsMissing) {
  Net net(GetParam(), 2);
  const Clock::time_point begin = Clock::now();
  try {
    net[0].open(net.wiring(0, one_lane(1, 1)), after(200ms));
    FAIL() << "worker 1 never opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTimeout);
    EXPECT_THAT(error.what(), HasSubstr("worker 1"));
    EXPECT_EQ(error.where(), "worker 0");
  }
  EXPECT_LT(Clock::now() - begin, 3s);
}

TEST_P(Channel, OpenWaitsForAPeerThatComesLate) {
  Net net(GetParam(), 2);
  std::jthread late([&] {
    std::this_thread::sleep_for(100ms);
    net[1].open(net.wiring(1, one_lane(8, 1)), after(10s));
  });
  net[0].open(net.wiring(0, one_lane(8, 1)), after(10s));
  late.join();
  EXPECT_TRUE(send_message(net.sender(0, 1), 0, 8, 0));
}

TEST_P(Channel, OpenRefusesLanesThatDiffer) {
  Net net(GetParam(), 2);
  const auto thrown =
      net.try_open([&](int self) { return net.wiring(self, one_lane(100 + self, 1)); }, 5s);
  EXPECT_THAT(thrown, testing::Contains(HasSubstr("other lanes")));
}

TEST_P(Channel, OpenIgnoresStrangers) {
  Net net(GetParam(), 2);
  const auto thrown = net.try_open(
      [&](int self) {
        Wiring wiring = net.wiring(self, one_lane(100, 1));
        wiring.token += self;
        return wiring;
      },
      300ms);
  EXPECT_THAT(thrown, testing::Each(HasSubstr("in time")));
}

TEST_P(Channel, OpensOneWayChannels) {
  Net net(GetParam(), 3);  // 0 -> 1 -> 2
  net.open([&](int self) {
    Wiring wiring = net.wiring(self, one_lane(8, 1));
    std::erase_if(wiring.send, [&](const auto& entry) { return entry.first != self + 1; });
    std::erase_if(wiring.receive, [&](const auto& entry) { return entry.first != self - 1; });
    return wiring;
  });
  EXPECT_TRUE(send_message(net.sender(0, 1), 0, 8, 0));
  EXPECT_TRUE(net.receiver(0, 1).receive(after(10s)));
  EXPECT_EQ(code_thrown_by([&] { net[0].sender(2); }), ErrorCode::kInternal);
  EXPECT_EQ(code_thrown_by([&] { net[0].receiver(1); }), ErrorCode::kInternal);
}

}  // namespace
}  // namespace kerf::runtime
