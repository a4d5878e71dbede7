// The channel suite, and that of connections that break, where each pair has a secret.
#include "tests/conformance/channel_fixture.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

const bool kAreEncrypted = has_secrets = true;

TEST(EncryptedChannels, AreThoseOfThisProgram) {
  ASSERT_TRUE(kAreEncrypted);
  const Net net(TransportKind::kTcp, 3);
  const Wiring wiring = net.wiring(1, one_lane(64, 2));
  EXPECT_EQ(wiring.secrets.at(0), net.wiring(0, {}).secrets.at(1));
  EXPECT_NE(wiring.secrets.at(0), wiring.secrets.at(2));
}

// Neither takes the other's word for less than it was told.
TEST(EncryptedChannels, AreNotOpenedToAPeerThatWasToldAnything) {
  for (const bool has_another : {false, true}) {
    Net net(TransportKind::kTcp, 2);
    const auto thrown = net.try_open(
        [&](int self) {
          Wiring wiring = net.wiring(self, one_lane(64, 2));
          if (self == 1 && has_another) wiring.secrets[0] = secret_of_pair(7, 8);
          if (self == 1 && !has_another) wiring.secrets.clear();
          return wiring;
        },
        500ms);
    for (const int worker : {0, 1})
      EXPECT_THAT(thrown[static_cast<size_t>(worker)],
                  testing::HasSubstr(kerf::format("worker {} did not open", 1 - worker)));
    EXPECT_GT(net[0].dropped(), 0);
    EXPECT_GT(net[1].dropped(), 0);
  }
}

TEST(EncryptedChannels, HaveSecretsOfTheirSize) {
  Net net(TransportKind::kTcp, 2);
  Wiring wiring = net.wiring(0, one_lane(64, 2));
  wiring.secrets[1].pop_back();
  const auto error = tests::error_of([&] { net[0].open(wiring, after(1s)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kProtocol);
  EXPECT_THAT(error->what(), testing::HasSubstr("worker 1 has 31 bytes"));
}

const auto kTcp = testing::Values(TransportKind::kTcp);
INSTANTIATE_TEST_SUITE_P(Encrypted, Channel, kTcp, name_of_kind);
INSTANTIATE_TEST_SUITE_P(Encrypted, ChannelOfSize, testing::Combine(kTcp, kSizes), name_of_size);

}  // namespace
}  // namespace kerf::runtime
