// A process that sends to the test, for suites of what connects processes.
#pragma once

#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {

// How two processes exchange messages, and what both have their tensors on.
struct Way {
  TransportKind kind{};
  std::string device;
  bool is_apart = false;  // the sender sees no process of ours, as in a container
};
inline std::string name_of_way(const testing::TestParamInfo<Way>& info) {
  return kerf::format("{}_{}{}", to_string(info.param.kind), info.param.device.substr(0, 4),
                      info.param.is_apart ? "_apart" : "");
}

// From now on what the calling thread forks is the first process of a namespace of its own. Whether
// it may.
inline bool part_from_processes() { return ::unshare(CLONE_NEWPID) == 0; }

// A sender (worker 0) in a process of its own that sends `messages` messages and then waits to be
// killed. The test is its receiver (worker 1).
class Sender {
 public:
  Sender(const Way& way, size_t bytes, int messages) {
    int pair[2];
    KERF_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    const auto start = [&] {
      KERF_CHECK(!way.is_apart || part_from_processes());
      pid_ = ::fork();  // before this process makes a ZeroMQ context
      if (pid_ != 0) return;
      ::close(pair[0]);
      run(way, bytes, messages, pair[1]);
    };
    std::thread(start).join();
    ::close(pair[1]);
    device_ = make_device(way.device);
    stream_ = device_->make_stream();
    endpoint_ = connect(way.kind, device_, bytes, 1, pair[0]);
    ::close(pair[0]);
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  ~Sender() {
    stream_.reset();
    kill();
  }

  ReceiveChannel& receiver() { return endpoint_->receiver(0); }
  // What lies there when the stream comes to it.
  std::vector<std::byte> content(const View& view) {
    std::vector<std::byte> bytes(view.bytes);
    if (view.ready != nullptr) stream_->wait(*view.ready);
    stream_->copy(bytes.data(), view.data, view.bytes);
    stream_->synchronize();
    return bytes;
  }
  void release(const View& view) { receiver().release(view, stream_.get()); }
  std::string address() const { return endpoint_->address(); }
  pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  static std::unique_ptr<Endpoint> connect(TransportKind kind,
                                           const std::shared_ptr<Device>& device, size_t bytes,
                                           int self, int socket) {
    auto endpoint = make_endpoint(kind, kerf::format("worker {}", self), device);
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

  [[noreturn]] static void run(const Way& way, size_t bytes, int messages, int socket) {
    try {
      const std::shared_ptr<Device> device = make_device(way.device);
      const auto stream = device->make_stream();
      const auto endpoint = connect(way.kind, device, bytes, 0, socket);
      for (int i = 0; i < messages; ++i) {
        const auto slot = endpoint->sender(1).acquire(0, bytes, after(20s));
        if (!slot) break;
        if (slot->writable != nullptr) stream->wait(*slot->writable);
        const auto content = pattern_of(static_cast<uint64_t>(i), bytes);
        stream->copy(slot->data, content.data(), bytes);
        endpoint->sender(1).commit(*slot, {i, 0, 0, 0}, stream.get());
      }
      std::ignore = endpoint->drain(after(20s));
      while (true) ::pause();
    } catch (const std::exception& error) {
      fmt::print(stderr, "the sender failed: {}\n", error.what());
      ::_exit(1);
    }
  }

  pid_t pid_ = -1;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Endpoint> endpoint_;
};

class OfTwoProcesses : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    bool may = true;
    if (GetParam().is_apart) std::thread([&] { may = part_from_processes(); }).join();
    if (!may) GTEST_SKIP() << "this process may make no namespace of processes";
  }
};
// For every way there.
class BetweenProcesses : public OfTwoProcesses {};
// For those that survive the other process.
class BehindAProcess : public OfTwoProcesses {};

// What a process has open or mapped, by name.
std::vector<std::string> names_of(const std::string& process);

}  // namespace kerf::runtime
