// Which transport a pair of workers gets, by what each registered.
#include "runtime/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "runtime/error.h"
#include "runtime/wire.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::error_of;

const Reach kHere{.host = "here", .sockets = "here"};
const Reach kThere{.host = "there", .sockets = "there"};
const Reach kGpu{.host = "here", .gpu = "gpu a", .sockets = "here"};
const Reach kOtherGpu{.host = "here", .gpu = "gpu b", .sockets = "here"};
const Reach kSameNameThere{.host = "there", .gpu = "gpu a", .sockets = "there"};
// In a container that has the network of `kHere`, and sees none of its processes.
const Reach kContainer{.host = "container", .sockets = "here"};
const Reach kGpuInContainer{.host = "container", .gpu = "gpu a", .sockets = "here"};

TransportKind between(const Reach& a, const Reach& b, std::optional<TransportKind> wanted = {}) {
  const TransportKind there = transport_between(wanted, {"worker 0", a}, {"worker 1", b});
  EXPECT_EQ(there, transport_between(wanted, {"worker 1", b}, {"worker 0", a}));
  return there;
}

TEST(Reach, DecidesTheTransportOfAPair) {
  EXPECT_EQ(between(kHere, kHere), TransportKind::kShm);
  EXPECT_EQ(between(kHere, kThere), TransportKind::kTcp);
  EXPECT_EQ(between(kGpu, kGpu), TransportKind::kCuda);
  EXPECT_EQ(between(kGpu, kOtherGpu), TransportKind::kShm);
  EXPECT_EQ(between(kGpu, kHere), TransportKind::kShm);
  EXPECT_EQ(between(kGpu, kSameNameThere), TransportKind::kTcp);
  EXPECT_EQ(between(kHere, kContainer), TransportKind::kShm);
  EXPECT_EQ(between(kContainer, kThere), TransportKind::kTcp);
  EXPECT_EQ(between(kGpu, kGpuInContainer), TransportKind::kShm);
  EXPECT_EQ(between(kGpuInContainer, kGpuInContainer), TransportKind::kCuda);
}

TEST(Reach, YieldsToWhatIsWanted) {
  for (const auto kind : {TransportKind::kShm, TransportKind::kIpc, TransportKind::kTcp})
    EXPECT_EQ(between(kGpu, kGpu, kind), kind);
  EXPECT_EQ(between(kHere, kThere, TransportKind::kTcp), TransportKind::kTcp);
  EXPECT_EQ(between(kHere, kContainer, TransportKind::kIpc), TransportKind::kIpc);
}

TEST(Reach, RefusesByNameWhatIsWantedAndCannotBe) {
  for (const auto& [a, b, kind] : std::vector<std::tuple<Reach, Reach, TransportKind>>{
           {kHere, kThere, TransportKind::kShm},
           {kHere, kThere, TransportKind::kIpc},
           {kHere, kHere, TransportKind::kCuda},
           {kGpu, kHere, TransportKind::kCuda},
           {kGpu, kOtherGpu, TransportKind::kCuda},
           {kGpu, kSameNameThere, TransportKind::kCuda},
           {kGpu, kGpuInContainer, TransportKind::kCuda}}) {
    const auto refused = error_of([&, &a = a, &b = b, kind = kind] {
      transport_between(kind, {"worker 0", a}, {"worker 1", b});
    });
    ASSERT_TRUE(refused) << to_string(kind);
    EXPECT_EQ(refused->code(), ErrorCode::kUnavailable);
    EXPECT_THAT(refused->message(),
                AllOf(HasSubstr("worker 0"), HasSubstr("worker 1"),
                      HasSubstr(std::string(to_string(kind))), HasSubstr("leave out --transport")));
  }
}

// What a process of its own tells; nothing where it can make no such `namespaces`.
std::optional<Reach> reach_of_another_process(int namespaces = 0) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(namespaces) != 0) ::_exit(77);
    // Whose processes it is of is said of the next.
    const pid_t next = ::fork();
    if (next != 0) ::_exit(::waitpid(next, nullptr, 0) == next ? 0 : 1);
    const std::string told = encode(reach_of("cpu"));
    ::_exit(::write(ends[1], told.data(), told.size()) == std::ssize(told) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string told(1000, ' ');
  const ssize_t bytes = ::read(ends[0], told.data(), told.size());
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  if (bytes <= 0) return {};
  return decode<Reach>(told.substr(0, static_cast<size_t>(bytes)));
}

TEST(Reach, OfProcessesOfOneHostIsTheSame) {
  const Reach reach = reach_of("cpu");
  const auto other = reach_of_another_process();
  ASSERT_TRUE(other);
  EXPECT_EQ(reach.host, other->host);
  EXPECT_EQ(reach.network, other->network);
  EXPECT_EQ(reach.sockets, other->sockets);
  EXPECT_THAT(reach.host, AllOf(HasSubstr("pid:["), HasSubstr("net:[")));
  EXPECT_EQ(reach.gpu, "");
  EXPECT_EQ(reach_of("no such device").gpu, "");
}

// Its /proc still is of the processes of before, and says of itself what it is of.
TEST(Reach, OfAContainerWithThisNetworkDiffersInItsProcessesAlone) {
  const auto other = reach_of_another_process(CLONE_NEWPID);
  if (!other) GTEST_SKIP() << "this process may make no namespace of processes";
  const Reach reach = reach_of("cpu");
  EXPECT_NE(reach.host, other->host);
  EXPECT_EQ(reach.network, other->network);
  EXPECT_EQ(reach.sockets, other->sockets);
  EXPECT_EQ(between(reach, *other), TransportKind::kShm);
}

TEST(Reach, OfAContainerWithANetworkOfItsOwnDiffersInAll) {
  const auto other = reach_of_another_process(CLONE_NEWNET);
  if (!other) GTEST_SKIP() << "this process may make no network";
  const Reach reach = reach_of("cpu");
  EXPECT_NE(reach.host, other->host);
  EXPECT_NE(reach.network, other->network);
  EXPECT_NE(reach.sockets, other->sockets);
  EXPECT_EQ(between(reach, *other), TransportKind::kTcp);
}

// A number of a user is another's elsewhere.
TEST(Reach, OfAContainerWithUsersOfItsOwnSharesTheNetworkAlone) {
  const auto other = reach_of_another_process(CLONE_NEWUSER);
  if (!other) GTEST_SKIP() << "this process may make no namespace of users";
  const Reach reach = reach_of("cpu");
  EXPECT_EQ(reach.network, other->network);
  EXPECT_NE(reach.sockets, other->sockets);
  EXPECT_EQ(between(reach, *other), TransportKind::kTcp);
}

// In a process of its own that reads nothing there.
bool tells_hosts_apart_without(const char* path) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, "") != 0 ||
        ::mount("/dev/null", path, nullptr, MS_BIND, "") != 0)
      ::_exit(77);
    ::_exit(error_of([] { reach_of("cpu"); }) ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 77) throw std::runtime_error("it may mount nothing");
  return WEXITSTATUS(status) != 0;
}

// All that have nothing to tell would be one host.
TEST(Reach, IsToldOrRefused) try {
  EXPECT_FALSE(tells_hosts_apart_without("/proc/sys/kernel/random/boot_id"));
} catch (const std::runtime_error& error) {
  GTEST_SKIP() << error.what();
}

// A worker that comes through a tunnel seems to be of this host.
TEST(Reach, OnLoopbackIsOfOneNetwork) {
  const Reach here{.host = "a", .network = "one"};
  const Reach container{.host = "b", .network = "one"};
  const Reach there{.host = "c", .network = "two"};
  const auto refused = [&](const Reach& to, const std::string& address) {
    return error_of([&] { check_way({"worker 0", here}, {"worker 1", to}, address); });
  };
  for (const char* address : {"tcp://127.0.0.1:5555", "tcp://[::1]:5555"}) {
    EXPECT_FALSE(refused(container, address));
    const auto error = refused(there, address);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error->message(), AllOf(HasSubstr("worker 0"), HasSubstr("worker 1")));
  }
  EXPECT_FALSE(refused(there, "tcp://10.0.0.2:5555"));
  EXPECT_FALSE(refused(there, "ipc://@kerf-0123"));
}

// Nobody listens to the network for a worker whose peers are all here.
TEST(Reach, SaysWhatAnEndpointIsFor) {
  using enum TransportKind;
  EXPECT_THAT(endpoint_kinds({}, /*local=*/true, kHere), ElementsAre(kShm));
  EXPECT_THAT(endpoint_kinds({}, /*local=*/false, kHere), ElementsAre(kShm, kTcp));
  EXPECT_THAT(endpoint_kinds({}, /*local=*/true, kGpu), ElementsAre(kShm, kCuda));
  EXPECT_THAT(endpoint_kinds(kIpc, /*local=*/false, kGpu), ElementsAre(kIpc));
}

}  // namespace
}  // namespace kerf::runtime
