// Which addresses a worker may tell as its endpoint's: others would be sent there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/channel.h"
#include "runtime/error.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using tests::error_of;

using Kinds = std::vector<TransportKind>;

TEST(EndpointAddress, OfThisHostAndOfTheRunsTransportIsAccepted) {
  for (const auto& [kinds, address] : std::vector<std::pair<Kinds, std::string>>{
           {{TransportKind::kInproc}, "inproc://worker 1#0"},
           {{TransportKind::kShm}, "ipc://@kerf-0123"},
           {{TransportKind::kIpc}, "ipc://@kerf-0123"},
           {{TransportKind::kTcp}, "tcp://127.0.0.1:5555"},
           {{TransportKind::kShm, TransportKind::kCuda}, "ipc://@kerf-0123"},
           {{TransportKind::kShm, TransportKind::kTcp}, "ipc://@kerf-0123 tcp://127.0.0.1:5555"}})
    EXPECT_FALSE(error_of([&, address = address, kinds = kinds] {
      check_endpoint_address(kinds, address);
    })) << address;
}

TEST(EndpointAddress, BeyondThisHostOrOfAnotherTransportIsRefused) {
  for (const auto& [kinds, address] : std::vector<std::pair<Kinds, std::string>>{
           {{TransportKind::kTcp}, "tcp://192.0.2.1:5555"},
           {{TransportKind::kTcp}, "tcp://127.0.0.1.example.org:5555"},
           {{TransportKind::kTcp}, "tcp://127.0.0.1:*"},
           {{TransportKind::kTcp}, "tcp://0.0.0.0:5555"},
           {{TransportKind::kTcp}, "ipc://@kerf-0123"},
           {{TransportKind::kIpc}, "ipc:///etc/socket"},
           {{TransportKind::kShm}, "tcp://127.0.0.1:5555"},
           {{TransportKind::kIpc}, ""},
           {{TransportKind::kShm, TransportKind::kTcp}, "ipc://@kerf-0123"},
           {{TransportKind::kTcp}, "tcp://127.0.0.1:5555 ipc://@kerf-0123"},
           {{TransportKind::kTcp}, "tcp://127.0.0.1:5555 tcp://127.0.0.1:5556"},
           {{TransportKind::kShm, TransportKind::kTcp}, "ipc://@kerf-0123 tcp://192.0.2.1:5555"},
           {{TransportKind::kInproc}, "tcp://192.0.2.1:5555"}}) {
    const auto refused =
        error_of([&, address = address, kinds = kinds] { check_endpoint_address(kinds, address); });
    ASSERT_TRUE(refused) << address;
    EXPECT_EQ(refused->code(), ErrorCode::kProtocol);
  }
}

// A worker is reached where it speaks from, so that it cannot send its peers to a third host.
TEST(EndpointAddress, IsOfTheHostThatItsWorkerSpeaksFrom) {
  const Kinds kinds{TransportKind::kShm, TransportKind::kTcp};
  const auto refused = [&](const std::string& address, const std::string& host) {
    const auto error = error_of([&] { check_endpoint_address(kinds, address, host); });
    return error && error->code() == ErrorCode::kProtocol;
  };
  EXPECT_FALSE(refused("ipc://@kerf-0123 tcp://10.0.0.2:5555", "10.0.0.2"));
  EXPECT_FALSE(refused("ipc://@kerf-0123 tcp://[fd00:0::2]:5555", "[fd00::2]"));
  EXPECT_FALSE(refused("ipc://@kerf-0123 tcp://127.0.0.1:5555", "127.0.0.2"));
  EXPECT_FALSE(refused("ipc://@kerf-0123 tcp://[::1]:5555", "[::1]"));
  for (const auto& [address, host] :
       std::vector<std::pair<std::string, std::string>>{{"tcp://10.0.0.3:5555", "10.0.0.2"},
                                                        {"tcp://127.0.0.1:5555", "10.0.0.2"},
                                                        {"tcp://10.0.0.2:5555", "127.0.0.1"},
                                                        {"tcp://10.0.0.2:5555", ""},
                                                        {"tcp://127.0.0.1:5555", "fe80::1%eth0"},
                                                        {"tcp://[fe80::1]:5555", "fe80::1%eth0"},
                                                        {"tcp://127.0.0.1:5555", "an unknown host"},
                                                        {"tcp://[fd00::2]:5555", "10.0.0.2"},
                                                        {"tcp://0.0.0.0:5555", "10.0.0.2"},
                                                        {"tcp://localhost:5555", "10.0.0.2"},
                                                        {"tcp://localhost:5555", "127.0.0.1"},
                                                        {"tcp://host2:5555", "10.0.0.2"},
                                                        {"tcp://10.0.0.2:*", "10.0.0.2"},
                                                        {"tcp://10.0.0.2:99999", "10.0.0.2"}})
    EXPECT_TRUE(refused("ipc://@kerf-0123 " + address, host)) << address << " of " << host;
  const auto error = error_of(
      [&] { check_endpoint_address(kinds, "ipc://@kerf-0123 tcp://10.0.0.3:5555", "10.0.0.2"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), testing::StartsWith("'tcp://10.0.0.3:5555' is not on 10.0.0.2,"));
  EXPECT_THAT(error->message(), testing::HasSubstr("no NAT"));
}

TEST(EndpointAddress, HasAWordForEachWayThere) {
  const std::string both = "ipc://@kerf-0123 tcp://127.0.0.1:5555";
  EXPECT_EQ(address_over(TransportKind::kShm, both), "ipc://@kerf-0123");
  EXPECT_EQ(address_over(TransportKind::kCuda, both), "ipc://@kerf-0123");
  EXPECT_EQ(address_over(TransportKind::kTcp, both), "tcp://127.0.0.1:5555");
  const auto none = error_of([&] { (void)address_over(TransportKind::kInproc, both); });
  ASSERT_TRUE(none);
  EXPECT_EQ(none->code(), ErrorCode::kProtocol);
}

}  // namespace
}  // namespace kerf::runtime
