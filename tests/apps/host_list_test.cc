// The file of --hosts, and what ssh is told to run.
#include "apps/main/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/main/remote_workers.h"
#include "tests/support/errors.h"

namespace kerf::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HostList, ALineIsAWorker) {
  const auto hosts = parse_hosts(
      "# the run's hosts\n"
      "node1\n"
      "\n"
      "  ada@node2\tdevice=cuda:0 # the small one\r\n"
      "ada@node2 keys=a=b kerf=/opt/kerf device=cuda,cpu",
      "hosts");
  ASSERT_EQ(hosts.size(), 3);
  EXPECT_EQ(hosts[0].host, "node1");
  EXPECT_EQ(hosts[0].device + hosts[0].kerf + hosts[0].keys, "");
  EXPECT_EQ(hosts[0].where, "hosts:2");
  EXPECT_EQ(hosts[1].host, "ada@node2");
  EXPECT_EQ(hosts[1].device, "cuda:0");
  EXPECT_EQ(hosts[2].where, "hosts:5");
  EXPECT_EQ(hosts[2].device, "cuda,cpu");
  EXPECT_EQ(hosts[2].kerf, "/opt/kerf");
  EXPECT_EQ(hosts[2].keys, "a=b");
}

TEST(HostList, WhatIsWrongIsToldWithItsLine) {
  for (const auto& [line, what] :
       std::vector<std::pair<std::string, std::string>>{{"-oProxyCommand=sh", "is no host"},
                                                        {"device=cpu node1", "is no host"},
                                                        {"node\x01", "is no host"},
                                                        {"node1 node2", "none of device="},
                                                        {"node1 colour=red", "none of device="},
                                                        {"node1 =red", "none of device="},
                                                        {"node1 device=", "has no value"},
                                                        {"node1 keys=a keys=b", "said twice"},
                                                        {"node1 device=gpu0", "is no device"},
                                                        {"node1 device=cuda:x", "is no device"},
                                                        {"node1 device=cpu,", "is no device"}}) {
    const auto error = kerf::tests::error_of([&] { parse_hosts("node0\n" + line, "hosts"); });
    ASSERT_TRUE(error) << line;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_EQ(error->where(), "hosts:2") << line;
    EXPECT_THAT(error->message(), HasSubstr(what)) << line;
  }
}

TEST(HostList, TheShellOverThereGetsEveryWordWhole) {
  EXPECT_EQ(quoted("/opt/kerf-1.0/bin/kerf"), "/opt/kerf-1.0/bin/kerf");
  EXPECT_EQ(quoted(""), "''");
  EXPECT_EQ(quoted("a b;$(c)"), "'a b;$(c)'");
  EXPECT_EQ(quoted("their's"), "'their'\\''s'");
  EXPECT_EQ(quoted("tcp://[fd00::1]:5555"), "'tcp://[fd00::1]:5555'");
}

TEST(HostList, WhatALineLeavesOutIsTheRuns) {
  const RemoteOptions options{.ssh = "/bin/ssh", .kerf = "/k", .keys = "/keys", .workers = 2};
  const auto told = [&](const RemoteHost& host, int number) {
    return ssh_command(host, number, "tcp://10.0.0.1:5", options);
  };
  EXPECT_THAT(
      told({.host = "a"}, 1),
      ElementsAre("/bin/ssh", "-oBatchMode=yes", "-oConnectTimeout=30", "-oServerAliveInterval=5",
                  "-oServerAliveCountMax=3", "a",
                  "exec /k worker --no-restart --connect tcp://10.0.0.1:5 --keys /keys --index 1"));
  // A spare takes the place of whoever is lost.
  EXPECT_EQ(
      told({.host = "b", .device = "cuda:1", .kerf = "/my k", .keys = "there"}, 2).back(),
      "exec '/my k' worker --no-restart --connect tcp://10.0.0.1:5 --keys there --device cuda:1");
}

}  // namespace
}  // namespace kerf::apps
