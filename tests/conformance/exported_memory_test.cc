// Memory of a GPU that processes share, on one that the host plays: what it takes of the host, and
// how long it is there.
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/conformance/process_sender.h"

namespace kerf::runtime {
namespace {

constexpr size_t kBytes = size_t{16} << 20U;
constexpr auto kSlack = static_cast<int64_t>(kBytes / 4);

// Bytes that a process has in physical memory, but for what the played GPU exports.
int64_t host_memory_of(pid_t process) {
  std::ifstream maps(kerf::format("/proc/{}/smaps", process));
  int64_t bytes = 0;
  bool exported = false;
  for (std::string line; std::getline(maps, line);) {
    // A mapping begins with its address, all else that is said of it with a capital.
    if (line[0] < 'A' || line[0] > 'Z')
      exported = line.find("played GPU memory") != std::string::npos;
    int64_t kib = 0;
    if (!exported && line.starts_with("Rss:") && std::istringstream(line.substr(4)) >> kib)
      bytes += kib << 10;
  }
  return bytes;
}

struct HostMemory {
  int64_t receiver = 0;  // more than before
  int64_t sender = 0;
};

// Of a message that was sent, and read in pieces.
HostMemory taken_over(TransportKind kind) {
  const int64_t before = host_memory_of(::getpid());
  Sender sender({kind, "cuda:0"}, kBytes, 1);
  auto view = sender.receiver().receive(after(10s));
  KERF_CHECK(view, "nothing came");
  constexpr size_t kPiece = size_t{64} << 10U;
  View piece = *view;
  for (piece.bytes = kPiece; piece.data < view->data + kBytes; piece.data += kPiece)
    (void)sender.content(piece);
  return {host_memory_of(::getpid()) - before, host_memory_of(sender.pid()) - before};
}

// The payload does not leave the GPU, as it does over memory of the host.
TEST(ExportedMemory, TakesNoneOfTheHost) {
  const HostMemory exported = taken_over(TransportKind::kCuda);
  EXPECT_LT(exported.receiver, kSlack);
  for (const TransportKind kind : {TransportKind::kShm, TransportKind::kIpc, TransportKind::kTcp}) {
    const HostMemory host = taken_over(kind);
    EXPECT_GT(host.receiver - exported.receiver, static_cast<int64_t>(kBytes) - kSlack)
        << to_string(kind);
    EXPECT_GT(host.sender - exported.sender, static_cast<int64_t>(kBytes) - kSlack)
        << to_string(kind);
  }
}

// Another process that opens memory, and closes it when it was told to look at it.
class Peer {
 public:
  Peer() {
    int pair[2];
    KERF_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    pid_ = ::fork();
    socket_ = pair[pid_ == 0 ? 1 : 0];
    ::close(pair[pid_ == 0 ? 0 : 1]);
    if (pid_ == 0) ::_exit(look() ? 0 : 1);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { ::close(socket_); }

  void open(const std::string& handle) {
    send(handle);
    EXPECT_EQ(receive(), "open");
  }
  // Whether it found pattern_of(1).
  bool looks() {
    send("look");
    int status = 0;
    return ::waitpid(pid_, &status, 0) == pid_ && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  void send(const std::string& text) const {
    KERF_CHECK(::send(socket_, text.data(), text.size(), 0) > 0);
  }
  std::string receive() const {
    char text[256];
    const ssize_t count = ::recv(socket_, text, sizeof text, 0);
    return {text, static_cast<size_t>(std::max<ssize_t>(count, 0))};
  }
  bool look() const {
    try {
      const auto device = make_device("cuda:0");
      const auto stream = device->make_stream();
      const ImportedMemory memory = device->import_memory(receive(), kExportedBlock);
      send("open");
      if (receive() != "look") return false;
      std::vector<std::byte> content(kExportedBlock);
      stream->copy(content.data(), memory.get(), content.size());
      stream->synchronize();
      return content == pattern_of(1, kExportedBlock);
    } catch (const std::exception& error) {
      fmt::print(stderr, "the peer failed: {}\n", error.what());
      return false;
    }
  }

  pid_t pid_ = -1;
  int socket_ = -1;
};

// It is not freed, nor used again, while the other process may have work under way that reads it.
TEST(ExportedMemory, StaysWhenItsBufferGoes) {
  Peer peer;
  const auto device = make_device("cuda:0");
  const auto stream = device->make_stream();
  const auto filled = [&](uint64_t seed) {
    Buffer buffer = device->allocate_exportable(kExportedBlock);
    const auto content = pattern_of(seed, kExportedBlock);
    stream->copy(buffer.data(), content.data(), content.size());
    stream->synchronize();
    return buffer;
  };
  const std::byte* at = nullptr;
  {
    const Buffer exported = filled(1);
    at = exported.data();
    peer.open(device->export_memory(exported));
  }
  EXPECT_EQ(device->memory().current, 0U);
  const Buffer next = filled(2);
  EXPECT_NE(next.data(), at);
  EXPECT_TRUE(peer.looks());
}

// What was shared with nobody is freed.
TEST(ExportedMemory, ThatNobodyWasToldOfIsUsedAgain) {
  const auto device = make_device("cuda:0");
  const std::byte* at = device->allocate_exportable(kExportedBlock).data();
  EXPECT_EQ(device->allocate_exportable(kExportedBlock).data(), at);
}

}  // namespace
}  // namespace kerf::runtime
