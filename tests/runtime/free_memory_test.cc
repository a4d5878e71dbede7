// The memory that there is for a process, as a folder in place of the system's tells it.
#include "runtime/free_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/device.h"
#include "runtime/file.h"
#include "tests/support/temporary_folder.h"

namespace kerf::runtime {
namespace {

namespace fs = std::filesystem;

class FreeMemory : public testing::Test {
 protected:
  FreeMemory() {
    tell("proc/meminfo",
         "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable:   600 kB\nCached: 9 kB\n");
  }
  void tell(const std::string& file, const std::string& text) const {
    fs::create_directories((root_.path() / file).parent_path());
    write_file_atomic(root_.path() / file, text);
  }
  void expect(int64_t all, int64_t free) const {
    const HostMemory memory = host_memory(root_.path());
    EXPECT_EQ(memory.all, all);
    EXPECT_EQ(memory.free, free);
  }

  const tests::TemporaryFolder root_;
};

// Whatever cgroups this process is in.
TEST(MemoryOfTheCpu, IsWhatThereIsForThisProcess) {
  EXPECT_EQ(make_cpu_device()->memory().capacity, static_cast<size_t>(host_memory().all));
}

TEST_F(FreeMemory, IsTheHostsWhereNothingBoundsIt) {
  expect(1'024'000, 614'400);
  tell("proc/self/cgroup", "0::/run\n");
  tell("sys/fs/cgroup/run/memory.max", "max\n");
  tell("sys/fs/cgroup/run/memory.current", "500000\n");
  expect(1'024'000, 614'400);
}

TEST_F(FreeMemory, IsBoundByEachCgroupThatTheProcessIsIn) {
  tell("proc/self/cgroup", "0::/job/run\n");
  tell("sys/fs/cgroup/job/run/memory.max", "900000\n");
  tell("sys/fs/cgroup/job/run/memory.current", "400000\n");
  expect(900'000, 500'000);
  tell("sys/fs/cgroup/job/memory.max", "800000\n");
  tell("sys/fs/cgroup/job/memory.current", "700000\n");
  expect(800'000, 100'000);
  tell("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 50000\nactive_file 7\n");
  expect(800'000, 150'000);
}

TEST_F(FreeMemory, IsBoundByCgroupsOfTheFirstVersion) {
  tell("proc/self/cgroup", "7:cpu,cpuacct:/run\n4:memory:/run\n");
  tell("sys/fs/cgroup/memory/run/memory.limit_in_bytes", "500000\n");
  tell("sys/fs/cgroup/memory/run/memory.usage_in_bytes", "300000\n");
  tell("sys/fs/cgroup/memory/run/memory.stat", "inactive_file 9\ntotal_inactive_file 1000\n");
  tell("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tell("sys/fs/cgroup/memory/memory.usage_in_bytes", "400000\n");
  expect(500'000, 201'000);
}

// A container knows its name on the host, and sees its own cgroup as the first.
TEST_F(FreeMemory, IsBoundByTheFirstCgroupWhereTheOwnIsNotSeen) {
  tell("proc/self/cgroup", "0::/../containers/this\n");
  tell("sys/fs/cgroup/memory.max", "500000\n");
  tell("sys/fs/cgroup/memory.current", "300000\n");
  expect(500'000, 200'000);
}

TEST_F(FreeMemory, IsVeryMuchWhereNobodyTells) {
  const tests::TemporaryFolder nothing;
  EXPECT_EQ(host_memory(nothing.path()).free, INT64_MAX);
  EXPECT_LT(host_memory().all, INT64_MAX) << "of this host";
  EXPECT_GT(host_memory().all, 0);
}

}  // namespace
}  // namespace kerf::runtime
