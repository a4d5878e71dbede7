// Which addresses a worker may tell as its endpoint's: others would be sent there.
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
