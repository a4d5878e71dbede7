// Which addresses a worker may tell as its endpoint's: others would be sent there.
#include <gtest/gtest.h>

#include "runtime/channel.h"
#include "runtime/error.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using tests::error_of;

TEST(EndpointAddress, OfThisHostAndOfTheRunsTransportIsAccepted) {
  for (const auto& [kind, address] : std::vector<std::pair<TransportKind, std::string>>{
           {TransportKind::kInproc, "inproc://worker 1#0"},
           {TransportKind::kShm, "ipc://@kerf-0123"},
           {TransportKind::kIpc, "ipc://@kerf-0123"},
           {TransportKind::kTcp, "tcp://127.0.0.1:5555"}})
    EXPECT_FALSE(error_of([&, address = address, kind = kind] {
      check_endpoint_address(kind, address);
    })) << address;
}

TEST(EndpointAddress, BeyondThisHostOrOfAnotherTransportIsRefused) {
  for (const auto& [kind, address] : std::vector<std::pair<TransportKind, std::string>>{
           {TransportKind::kTcp, "tcp://192.0.2.1:5555"},
           {TransportKind::kTcp, "tcp://127.0.0.1.example.org:5555"},
           {TransportKind::kTcp, "tcp://127.0.0.1:*"},
           {TransportKind::kTcp, "tcp://0.0.0.0:5555"},
           {TransportKind::kTcp, "ipc://@kerf-0123"},
           {TransportKind::kIpc, "ipc:///etc/socket"},
           {TransportKind::kShm, "tcp://127.0.0.1:5555"},
           {TransportKind::kIpc, ""},
           {TransportKind::kInproc, "tcp://192.0.2.1:5555"}}) {
    const auto refused =
        error_of([&, address = address, kind = kind] { check_endpoint_address(kind, address); });
    ASSERT_TRUE(refused) << address;
    EXPECT_EQ(refused->code(), ErrorCode::kProtocol);
  }
}

}  // namespace
}  // namespace kerf::runtime
