// The suite of channel_process_test.cc between processes that compute on CPUs.
#include <filesystem>
#include <fstream>

#include "tests/conformance/process_sender.h"

namespace kerf::runtime {
namespace {

class SharedMemoryChannel : public OfTwoProcesses {};

// The mapping keeps the memory; an open descriptor would only be one more thing to leak.
TEST_P(SharedMemoryChannel, ClosesItsDescriptorsOnceMapped) {
  Sender sender(GetParam(), 1'000, 1);
  ASSERT_TRUE(sender.receiver().receive(after(10s)));
  for (const std::string& process : {std::string("self"), std::to_string(sender.pid())})
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + process + "/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone);
      EXPECT_EQ(target.string().find("memfd"), std::string::npos) << process << ": " << target;
    }
}

// The receiver maps read-only: it cannot change what the sender may want to send again.
TEST_P(SharedMemoryChannel, MapsTheSendersSlotsReadOnly) {
  Sender sender(GetParam(), 1'000, 1);
  ASSERT_TRUE(sender.receiver().receive(after(10s)));
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:kerf-slots") == std::string::npos) continue;
    ++found;
    EXPECT_NE(line.find(" r--s "), std::string::npos) << line;
  }
  EXPECT_EQ(found, 1);
}

const auto kWays = testing::Values(
    Way{TransportKind::kShm, "cpu"}, Way{TransportKind::kIpc, "cpu"},
    Way{TransportKind::kTcp, "cpu"}, Way{TransportKind::kShm, "cpu", /*is_apart=*/true},
    Way{TransportKind::kIpc, "cpu", true}, Way{TransportKind::kTcp, "cpu", true});
const auto kByMemory =
    testing::Values(Way{TransportKind::kShm, "cpu"}, Way{TransportKind::kShm, "cpu", true});
INSTANTIATE_TEST_SUITE_P(Over, BetweenProcesses, kWays, name_of_way);
INSTANTIATE_TEST_SUITE_P(Over, BehindAProcess, kWays, name_of_way);
INSTANTIATE_TEST_SUITE_P(Over, SharedMemoryChannel, kByMemory, name_of_way);

}  // namespace
}  // namespace kerf::runtime
