// What tests of the packet socket over plain connections share: two workers' sockets, and a
// connection to one of them whose bytes the test chooses.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/link/packet_socket.h"
#include "runtime/sockets/stream_socket.h"
#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {

inline constexpr size_t kMiB = size_t{1} << 20;

// Room by the sequence of messages; what there is none for is not wanted.
class PayloadRooms final : public PayloadPlaces {
 public:
  void make(uint64_t sequence, size_t bytes) { rooms_[sequence].resize(bytes); }
  std::byte* place(const PacketHeader& head) override {
    ++asked;
    const auto found = rooms_.find(head.sequence);
    return found == rooms_.end() ? nullptr : found->second.data() + head.offset;
  }
  int asked = 0;
  const std::vector<std::byte>& room(uint64_t sequence) const { return rooms_.at(sequence); }

 private:
  std::map<uint64_t, std::vector<std::byte>> rooms_;
};

// A worker's packet socket, with what it is called with.
struct SocketOfWorker {
  SocketOfWorker(int number, const std::string& scheme)
      : socket(make_packet_socket(kerf::format("worker {}", number), {scheme})) {
    socket->identify(number, 1, kTestToken);
  }
  std::optional<Packet> receive(Deadline deadline = after(10s)) {
    while (true) {
      PacketSocket::Lock lock(mutex);
      if (auto packet = socket->receive(rooms, lock)) return packet;
      if (Clock::now() >= deadline) return std::nullopt;
      socket->wait(std::min(deadline, after(10ms)));
    }
  }
  std::optional<Packet> look() {
    PacketSocket::Lock lock(mutex);
    return socket->receive(rooms, lock);
  }
  void send_all() {
    for (const Deadline end = after(10s); socket->has_unsent() && Clock::now() < end;)
      EXPECT_FALSE(receive(after(1ms)));
    EXPECT_FALSE(socket->has_unsent());
  }

  std::unique_ptr<PacketSocket> socket;
  PayloadRooms rooms;
  std::mutex mutex;
};

inline PacketHeader data_head(uint64_t sequence, size_t bytes) {
  PacketHeader head;
  head.kind = PacketKind::kData;
  head.sequence = sequence;
  head.bytes = bytes;
  return head;
}

inline PacketHeader probe_head(uint64_t sequence) {
  PacketHeader head;
  head.kind = PacketKind::kProbe;
  head.sequence = sequence;
  return head;
}

// As worker 0 seals it, or another.
inline std::string on_the_wire(PacketHeader head, const std::string& body = {}, int32_t from = 0) {
  head.epoch = 1;
  head.from = from;
  head.token = kTestToken;
  head.body_bytes = static_cast<uint32_t>(body.size());
  seal(head, body);
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + body;
}

// A connection whose bytes the test chooses.
class RawConnection {
 public:
  explicit RawConnection(const PacketSocket& to)
      : socket_(begin_connect(parse_socket_address(to.address()))) {
    pollfd item{socket_.number(), POLLOUT, 0};
    EXPECT_EQ(::poll(&item, 1, 10'000), 1);
    EXPECT_TRUE(is_connected(socket_));
  }
  void write(std::string_view bytes) {
    ASSERT_EQ(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Whether the other side closes it, which takes as long as that takes to read what came before.
  bool is_closed_by(SocketOfWorker& other) {
    for (const Deadline end = after(10s); Clock::now() < end;) {
      EXPECT_FALSE(other.receive(after(1ms)));
      pollfd item{socket_.number(), POLLIN | POLLRDHUP, 0};
      if (::poll(&item, 1, 0) == 1) return true;
    }
    return false;
  }

 private:
  OpenFile socket_;
};

// As long as there are no descriptors left.
class FewFiles {
 public:
  FewFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 3;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// By scheme.
class StreamSocket : public testing::TestWithParam<std::string> {
 protected:
  StreamSocket() {
    a_.socket->connect(1, b_.socket->address());
    b_.socket->connect(0, a_.socket->address());
  }
  SocketOfWorker a_{0, GetParam()};
  SocketOfWorker b_{1, GetParam()};
};

inline std::string name_of_scheme(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace kerf::runtime
