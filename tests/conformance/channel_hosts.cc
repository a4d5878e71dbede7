// The channel suite between hosts: three of them on this machine, over tcp, by IPv4 and by IPv6.
// Skipped, saying so, where this machine makes no networks.
#include "tests/conformance/channel_fixture.h"
#include "tests/support/network_hosts.h"

namespace kerf::runtime {
namespace {

constexpr int kHosts = 3;

class Hosts : public testing::Environment {
 public:
  void SetUp() override {
    try {
      hosts_.emplace(kHosts);
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << "there are no hosts beside this one: " << error.what();
    }
    use(&tests::NetworkHosts::address);
  }
  void use(std::string (*address_of)(int host)) {
    place_of = [this, address_of](int endpoint) {
      const int host = endpoint % kHosts;
      return Place{address_of(host), [this, host] { hosts_->enter(host); }};
    };
  }

 private:
  std::optional<tests::NetworkHosts> hosts_;
};
auto* const kEnvironment = dynamic_cast<Hosts*>(testing::AddGlobalTestEnvironment(new Hosts));

// What its addresses are of, and that its peers are not.
TEST(ChannelsBetweenHosts, AreWhereTheySay) {
  Net net(TransportKind::kTcp, 2);
  EXPECT_THAT(net[0].address(), testing::StartsWith("tcp://" + place_of(0).host + ":"));
  EXPECT_NE(place_of(0).host, place_of(1).host);
  EXPECT_EQ(net.wiring(0, {}).elsewhere, std::vector<int32_t>{1});
}

TEST(ChannelsBetweenHosts, GoByIPv6Too) {
  kEnvironment->use(&tests::NetworkHosts::address6);
  Net net(TransportKind::kTcp, 3, one_lane(100'000, 2));
  kEnvironment->use(&tests::NetworkHosts::address);
  EXPECT_THAT(net[2].address(), testing::StartsWith("tcp://[fd73::3]:"));
  ASSERT_TRUE(send_message(net.sender(0, 2), 0, 100'000, 7));
  const auto view = net.receiver(0, 2).receive(after(10s));
  ASSERT_TRUE(view);
  EXPECT_TRUE(holds(*view, 7));
  net.receiver(0, 2).release(*view);
}

const auto kTcp = testing::Values(TransportKind::kTcp);
INSTANTIATE_TEST_SUITE_P(BetweenHosts, Channel, kTcp, name_of_kind);
INSTANTIATE_TEST_SUITE_P(BetweenHosts, ChannelOfSize, testing::Combine(kTcp, kSizes), name_of_size);

}  // namespace
}  // namespace kerf::runtime
