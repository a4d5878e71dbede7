// Channels between processes, and what is left when one of them is killed. Who links this says over
// which ways.
#include <filesystem>
#include <fstream>

#include "tests/conformance/process_sender.h"

namespace kerf::runtime {

TEST_P(BetweenProcesses, CarriesTensors) {
  Sender sender(GetParam(), 3'000'000, 10);
  for (int i = 0; i < 10; ++i) {
    const auto view = sender.receiver().receive(after(10s));
    ASSERT_TRUE(view);
    EXPECT_TRUE(sender.content(*view) == pattern_of(static_cast<uint64_t>(i), 3'000'000))
        << "message " << i;
    sender.release(*view);
  }
}

TEST_P(BehindAProcess, AKilledSenderTakesNoViewWithIt) {
  Sender sender(GetParam(), 500'000, 1);
  const auto view = sender.receiver().receive(after(10s));
  ASSERT_TRUE(view);
  sender.kill();
  EXPECT_TRUE(sender.content(*view) == pattern_of(0, 500'000))
      << "the memory stays while it is mapped";
  EXPECT_FALSE(sender.receiver().receive(after(100ms)));
  sender.release(*view);
}

std::vector<std::string> names_of(const std::string& process) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + process + "/fd")) {
    std::error_code gone;
    names.push_back(std::filesystem::read_symlink(entry.path(), gone));
  }
  std::ifstream maps("/proc/" + process + "/maps");
  for (std::string line; std::getline(maps, line);) names.push_back(line);
  return names;
}

TEST_P(BetweenProcesses, HasNoNameInTheFileSystem) {
  Sender sender(GetParam(), 1'000, 1);
  ASSERT_TRUE(sender.receiver().receive(after(10s)));
  EXPECT_THAT(sender.address(), testing::AnyOf(testing::StartsWith("ipc://@"),
                                               testing::StartsWith("tcp://127.0.0.1:")));
  for (const std::string& process : {std::string("self"), std::to_string(sender.pid())})
    EXPECT_THAT(names_of(process), testing::Each(testing::Not(testing::HasSubstr("/dev/shm"))));
}

}  // namespace kerf::runtime
