// Channels between processes, and what is left when one of them is killed.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {
namespace {

// A sender (worker 0) in a process of its own that sends `messages` messages and then waits to be
// killed. The test is its receiver (worker 1).
class Sender {
 public:
  Sender(TransportKind kind, size_t bytes, int messages) {
    int pair[2];
    KERF_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    pid_ = ::fork();  // before this process makes a ZeroMQ context
    if (pid_ == 0) {
      ::close(pair[0]);
      run(kind, bytes, messages, pair[1]);
    }
    ::close(pair[1]);
    endpoint_ = connect(kind, bytes, 1, pair[0]);
    ::close(pair[0]);
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender() { kill(); }

  ReceiveChannel& receiver() { return endpoint_->receiver(0); }
  std::string address() const { return endpoint_->address(); }
  pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  static std::unique_ptr<Endpoint> connect(TransportKind kind, size_t bytes, int self, int socket) {
    auto endpoint = make_endpoint(kind, kerf::format("worker {}", self), make_cpu_device());
    const std::string mine = endpoint->address();
    char theirs[256];
    KERF_CHECK(::send(socket, mine.data(), mine.size(), 0) > 0);
    const ssize_t count = ::recv(socket, theirs, sizeof theirs, 0);
    KERF_CHECK(count > 0);
    Wiring wiring;
    wiring.self = self;
    wiring.token = kTestToken;
    wiring.addresses[1 - self] = std::string(theirs, static_cast<size_t>(count));
    (self == 0 ? wiring.send : wiring.receive)[1 - self] = {{bytes, 2}};
    endpoint->open(wiring, after(10s));
    return endpoint;
  }

  [[noreturn]] static void run(TransportKind kind, size_t bytes, int messages, int socket) {
    try {
      const auto endpoint = connect(kind, bytes, 0, socket);
      for (int i = 0; i < messages; ++i) send_message(endpoint->sender(1), 0, bytes, i, after(20s));
      std::ignore = endpoint->drain(after(20s));
    } catch (const Error&) {
      ::_exit(1);
    }
    while (true) ::pause();
  }

  pid_t pid_ = -1;
  std::unique_ptr<Endpoint> endpoint_;
};

class BetweenProcesses : public testing::TestWithParam<TransportKind> {};

TEST_P(BetweenProcesses, CarriesTensors) {
  Sender sender(GetParam(), 3'000'000, 10);
  for (int i = 0; i < 10; ++i) {
    const auto view = sender.receiver().receive(after(10s));
    ASSERT_TRUE(view);
    EXPECT_TRUE(holds(*view, i)) << "message " << i;
    sender.receiver().release(*view);
  }
}

TEST_P(BetweenProcesses, AKilledSenderTakesNoViewWithIt) {
  Sender sender(GetParam(), 500'000, 1);
  const auto view = sender.receiver().receive(after(10s));
  ASSERT_TRUE(view);
  sender.kill();
  EXPECT_TRUE(holds(*view, 0)) << "the memory stays while it is mapped";
  EXPECT_FALSE(sender.receiver().receive(after(100ms)));
  sender.receiver().release(*view);
}

// What a process has open or mapped, by name.
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

// The mapping keeps the memory; an open descriptor would only be one more thing to leak.
TEST(SharedMemoryChannel, ClosesItsDescriptorsOnceMapped) {
  Sender sender(TransportKind::kShm, 1'000, 1);
  ASSERT_TRUE(sender.receiver().receive(after(10s)));
  for (const std::string& process : {std::string("self"), std::to_string(sender.pid())})
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + process + "/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry.path(), gone);
      EXPECT_EQ(target.string().find("memfd"), std::string::npos) << process << ": " << target;
    }
}

// The receiver maps read-only: it cannot change what the sender may want to send again.
TEST(SharedMemoryChannel, MapsTheSendersSlotsReadOnly) {
  Sender sender(TransportKind::kShm, 1'000, 1);
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

INSTANTIATE_TEST_SUITE_P(Over, BetweenProcesses,
                         testing::Values(TransportKind::kShm, TransportKind::kIpc,
                                         TransportKind::kTcp),
                         name_of_kind);

}  // namespace
}  // namespace kerf::runtime
