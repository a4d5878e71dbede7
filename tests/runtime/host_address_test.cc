// Which texts are numbers of hosts, and which of ours is seen from elsewhere.
#include "runtime/host_address.h"

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

std::string text_of(const std::string& text) {
  const auto address = HostAddress::parse(text);
  return address ? address->text() : "none";
}

TEST(HostAddress, OfOneHostIsOneText) {
  EXPECT_EQ(text_of("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(text_of("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(text_of("[fd00:0:0::1]"), "[fd00::1]");
  EXPECT_EQ(HostAddress::parse("fd00::1"), HostAddress::parse("[FD00:0::0001]"));
  EXPECT_NE(HostAddress::parse("10.0.0.1"), HostAddress::parse("10.0.0.2"));
}

TEST(HostAddress, IsNothingElse) {
  for (const char* text : {"", "127.1", "1", "10.0.0.256", "10.0.0.1 ", "10.0.0.01", "host",
                           "[10.0.0.1]", "fe80::1%eth0", "[::1", "::1]", "[]", "10.0.0.1:80"})
    EXPECT_EQ(text_of(text), "none") << text;
}

TEST(HostAddress, KnowsLoopbackAndEveryInterface) {
  for (const char* text : {"127.0.0.1", "127.3.2.1", "[::1]", "::ffff:127.0.0.1"})
    EXPECT_TRUE(HostAddress::parse(text)->is_loopback()) << text;
  for (const char* text : {"128.0.0.1", "10.127.0.1", "::2", "fd00::1", "0.0.0.0"})
    EXPECT_FALSE(HostAddress::parse(text)->is_loopback()) << text;
  for (const char* text : {"0.0.0.0", "::", "::ffff:0.0.0.0"})
    EXPECT_TRUE(HostAddress::parse(text)->is_any()) << text;
  EXPECT_FALSE(HostAddress::parse("0.0.0.1")->is_any());
}

TEST(TcpAddress, HasAHostAndAPort) {
  const auto parts = split_tcp("tcp://[fd00::1]:5555");
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->host, "[fd00::1]");
  EXPECT_EQ(parts->port, "5555");
  EXPECT_EQ(split_tcp("tcp://host:*")->port, "*");
  for (const char* text :
       {"tcp://host", "tcp://:80", "tcp://host:", "tcp://host:0", "tcp://host:65536",
        "tcp://host:-1", "tcp://host:8o", "ipc://@name", "host:80", ""})
    EXPECT_FALSE(split_tcp(text)) << text;
}

TEST(HostTowards, AnAddressOfThisHostIsLoopback) {
  EXPECT_EQ(host_towards("inproc"), "127.0.0.1");
  EXPECT_EQ(host_towards("ipc://@kerf"), "127.0.0.1");
  EXPECT_EQ(host_towards("tcp://127.0.0.1:5555"), "127.0.0.1");
  EXPECT_EQ(host_towards("tcp://localhost:5555"), "127.0.0.1");
}

TEST(HostTowards, AHostThatIsNowhereIsNamed) {
  const auto error = tests::error_of([] { host_towards("tcp://no-such-host.invalid:5555"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_NE(error->message().find("no-such-host.invalid"), std::string::npos);
}

}  // namespace
}  // namespace kerf::runtime
