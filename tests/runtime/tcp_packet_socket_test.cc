// The packet socket over plain TCP: what it makes of streams of bytes, in whatever pieces they come
// and wherever they end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime/link/packet_socket.h"
#include "runtime/tcp/tcp_socket.h"
#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Room by the sequence of messages; what there is none for is not wanted.
class Rooms final : public PayloadPlaces {
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
struct Worker {
  explicit Worker(int number) : socket(make_tcp_packet_socket(kerf::format("worker {}", number))) {
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
  Rooms rooms;
  std::mutex mutex;
};

PacketHeader data_head(uint64_t sequence, size_t bytes) {
  PacketHeader head;
  head.kind = PacketKind::kData;
  head.sequence = sequence;
  head.bytes = bytes;
  return head;
}

PacketHeader probe_head(uint64_t sequence) {
  PacketHeader head;
  head.kind = PacketKind::kProbe;
  head.sequence = sequence;
  return head;
}

// As worker 0 seals it, or another.
std::string on_the_wire(PacketHeader head, const std::string& body = {}, int32_t from = 0) {
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
      : socket_(begin_connect_tcp(parse_tcp_address(to.address()))) {
    pollfd item{socket_.number(), POLLOUT, 0};
    EXPECT_EQ(::poll(&item, 1, 10'000), 1);
    EXPECT_TRUE(is_connected(socket_));
  }
  void write(std::string_view bytes) {
    ASSERT_EQ(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Whether the other side has closed it.
  bool is_closed_by(Deadline deadline) {
    pollfd item{socket_.number(), POLLIN | POLLRDHUP, 0};
    return ::poll(&item, 1, static_cast<int>((deadline - Clock::now()) / 1ms)) == 1;
  }

 private:
  OpenFile socket_;
};

class TcpSocket : public testing::Test {
 protected:
  TcpSocket() {
    a_.socket->connect(1, b_.socket->address());
    b_.socket->connect(0, a_.socket->address());
  }
  Worker a_{0};
  Worker b_{1};
};

TEST_F(TcpSocket, PutsPayloadInItsPlaceAndShowsItThere) {
  const auto payload = pattern_of(1, 3 * kMiB / 4);
  b_.rooms.make(7, payload.size());
  a_.socket->send_pinned(1, data_head(7, payload.size()), payload.data(), payload.size());
  std::optional<Packet> packet;
  for (const Deadline end = after(10s); !packet && Clock::now() < end;) {
    EXPECT_FALSE(a_.receive(after(0ms))) << "but it connects";
    packet = b_.receive(after(1ms));
  }
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->head.sequence, 7U);
  EXPECT_EQ(packet->body.data(), reinterpret_cast<const char*>(b_.rooms.room(7).data()));
  EXPECT_EQ(b_.rooms.room(7), payload);
}

// A sender that waits for its receiver to read, and the other way round, would wait for ever.
TEST_F(TcpSocket, CarriesMoreThanConnectionsHoldBothWaysAtOnce) {
  constexpr int kMessages = 40;
  const auto payload = pattern_of(3, kMiB);
  const auto exchange = [&](Worker& worker, int peer) {
    for (int i = 0; i < kMessages; ++i) {
      worker.rooms.make(i, payload.size());
      worker.socket->send_pinned(peer, data_head(i, payload.size()), payload.data(),
                                 payload.size());
    }
    for (int i = 0; i < kMessages; ++i) {
      const auto packet = worker.receive();
      ASSERT_TRUE(packet) << i;
      EXPECT_EQ(packet->head.sequence, static_cast<uint64_t>(i));
      EXPECT_EQ(worker.rooms.room(i), payload) << i;
    }
    worker.send_all();
  };
  std::jthread other([&] { exchange(b_, 0); });
  exchange(a_, 1);
}

TEST_F(TcpSocket, FindsPacketsInWhateverPiecesTheyCome) {
  RawConnection raw(*b_.socket);
  const std::string body = "the bytes of one chunk";
  b_.rooms.make(1, body.size());
  const std::string all = on_the_wire(probe_head(5)) +
                          on_the_wire(data_head(1, body.size()), body) + on_the_wire(probe_head(6));
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{95}, size_t{97}, all.size()}) {
    std::vector<uint64_t> sequences;
    for (size_t at = 0; at < all.size(); at += piece) {
      raw.write(std::string_view(all).substr(at, piece));
      while (const auto packet = b_.receive(after(1ms))) sequences.push_back(packet->head.sequence);
    }
    while (sequences.size() < 3) {
      const auto packet = b_.receive();
      ASSERT_TRUE(packet);
      sequences.push_back(packet->head.sequence);
    }
    EXPECT_THAT(sequences, testing::ElementsAre(5, 1, 6)) << piece << " bytes at a time";
    const auto& room = b_.rooms.room(1);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(room.data()), room.size()), body);
  }
  EXPECT_EQ(b_.socket->dropped(), 0);
}

TEST_F(TcpSocket, SkipsPayloadThatNobodyWants) {
  RawConnection raw(*b_.socket);
  raw.write(on_the_wire(data_head(9, 100'000), std::string(100'000, 'x')));
  raw.write(on_the_wire(probe_head(4)));
  const auto packet = b_.receive();
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->head.kind, PacketKind::kProbe);
  EXPECT_EQ(packet->head.sequence, 4U);
}

// So whoever waits for this worker, or wants to drive in its place, does not wait for that sender.
TEST_F(TcpSocket, ThrowsAwayALittleOfWhatIsNotWantedAtATime) {
  constexpr int kUnwanted = 200;
  RawConnection raw(*b_.socket);
  for (int i = 0; i < kUnwanted; ++i) raw.write(on_the_wire(data_head(9, 10), "0123456789"));
  raw.write(on_the_wire(probe_head(4)));
  std::optional<Packet> packet;
  for (const Deadline end = after(10s); !packet && Clock::now() < end;) {
    const int before = b_.rooms.asked;
    packet = b_.look();
    EXPECT_LE(b_.rooms.asked - before, 32);
    const bool is_flooded = !packet && b_.rooms.asked < kUnwanted && b_.rooms.asked > before;
    EXPECT_FALSE(is_flooded && b_.socket->drained()) << "wait() waits for the next";
  }
  ASSERT_TRUE(packet);
  EXPECT_EQ(b_.rooms.asked, kUnwanted);
}

TEST_F(TcpSocket, ReadsAllConnectionsInTurns) {
  b_.socket->expect(2);
  RawConnection one(*b_.socket);
  RawConnection other(*b_.socket);
  for (int i = 0; i < 3; ++i) {
    one.write(on_the_wire(probe_head(1), {}, 0));
    other.write(on_the_wire(probe_head(2), {}, 2));
  }
  std::this_thread::sleep_for(10ms);
  std::vector<int32_t> froms;
  for (int i = 0; i < 6; ++i) {
    const auto packet = b_.receive();
    ASSERT_TRUE(packet);
    froms.push_back(packet->head.from);
  }
  EXPECT_NE(froms[0], froms[1]);
  EXPECT_NE(froms[2], froms[3]);
}

TEST_F(TcpSocket, EndsAConnectionThatSpeaksForTwoWorkers) {
  b_.socket->expect(2);
  RawConnection raw(*b_.socket);
  raw.write(on_the_wire(probe_head(1), {}, 0) + on_the_wire(probe_head(2), {}, 2));
  ASSERT_TRUE(b_.receive());
  EXPECT_FALSE(b_.receive(after(20ms)));
  EXPECT_TRUE(raw.is_closed_by(after(10s)));
  EXPECT_EQ(b_.socket->dropped(), 1);
}

TEST_F(TcpSocket, EndsAConnectionWhoseBodyIsNotWhatItsHeaderSays) {
  RawConnection raw(*b_.socket);
  PacketHeader head;
  head.kind = PacketKind::kState;
  std::string packet = on_the_wire(head, "sixteen bytes...");
  packet.back() ^= 1;
  raw.write(packet);
  EXPECT_FALSE(b_.receive(after(20ms)));
  EXPECT_TRUE(raw.is_closed_by(after(10s)));
  EXPECT_EQ(b_.socket->dropped(), 1);
}

// The one that says its first word last is not for that the newer one.
TEST_F(TcpSocket, KeepsTheNewerConnectionThoughTheOlderSpeaksLast) {
  RawConnection older(*b_.socket);
  RawConnection newer(*b_.socket);
  newer.write(on_the_wire(probe_head(1)));
  ASSERT_TRUE(b_.receive());
  older.write(on_the_wire(probe_head(2)));
  EXPECT_FALSE(b_.receive(after(20ms)));
  EXPECT_TRUE(older.is_closed_by(after(10s)));
  newer.write(on_the_wire(probe_head(3)));
  const auto packet = b_.receive();
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->head.sequence, 3U);
}

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

TEST_F(TcpSocket, LetsInWhoKnockedWhileNoMoreFilesCouldBeOpened) {
  RawConnection raw(*b_.socket);
  raw.write(on_the_wire(probe_head(1)));
  {
    const FewFiles few;
    EXPECT_FALSE(b_.receive(after(20ms)));
  }
  EXPECT_TRUE(b_.receive());
}

TEST_F(TcpSocket, ConnectsAgainOnceMoreFilesCanBeOpened) {
  a_.socket->send(1, probe_head(1));
  a_.send_all();
  ASSERT_TRUE(b_.receive());
  {
    RawConnection thief(*b_.socket);  // takes the place of a's connection
    thief.write(on_the_wire(probe_head(2)));
    ASSERT_TRUE(b_.receive());
    const FewFiles few;
    a_.socket->send(1, probe_head(3));
    EXPECT_FALSE(a_.receive(after(50ms)));
    a_.socket->send(1, probe_head(4));
    EXPECT_FALSE(a_.receive(after(250ms)));
  }
  a_.send_all();
  const auto packet = b_.receive();
  ASSERT_TRUE(packet);
  EXPECT_GE(packet->head.sequence, 3U);
}

TEST_F(TcpSocket, GoesQuietlyWhileNoMoreFilesCanBeOpened) {
  a_.socket->send(1, probe_head(1));
  a_.send_all();
  ASSERT_TRUE(b_.receive());
  b_.socket.reset();
  std::this_thread::sleep_for(10ms);
  for (int i = 0; i < 3; ++i) a_.socket->send(1, probe_head(2));
  const FewFiles few;
  a_.socket.reset();
}

// What it has not sent by then nobody waits for.
TEST_F(TcpSocket, HasNoLastWordsOnceInterrupted) {
  const auto payload = pattern_of(8, kMiB);
  for (int i = 0; i < 40; ++i)
    a_.socket->send_pinned(1, data_head(i, payload.size()), payload.data(), payload.size());
  EXPECT_FALSE(a_.receive(after(50ms)));
  ASSERT_TRUE(a_.socket->has_unsent());
  a_.socket->interrupt();
  const auto begin = Clock::now();
  a_.socket.reset();
  EXPECT_LT(Clock::now() - begin, 400ms);
}

// The packet that was under way is sent again from its beginning, over the next connection.
TEST_F(TcpSocket, BeginsAPacketAgainThatABrokenConnectionHadBegun) {
  Worker late(2);  // that nobody reads, at first
  late.socket->expect(0);
  const auto payload = pattern_of(5, kMiB);
  a_.socket->connect(2, late.socket->address());
  for (int i = 0; i < 24; ++i)
    a_.socket->send_pinned(2, data_head(i, payload.size()), payload.data(), payload.size());
  EXPECT_FALSE(a_.receive(after(100ms)));
  ASSERT_TRUE(a_.socket->has_unsent()) << "more than the connection holds";
  std::vector<uint64_t> sequences;
  for (int i = 0; i < 24; ++i) late.rooms.make(i, payload.size());
  // Half of one, and a newer connection of the same worker ends that.
  const auto first = late.receive(after(1s));
  ASSERT_TRUE(first);
  {
    RawConnection newer(*late.socket);
    newer.write(on_the_wire(probe_head(99)));
    for (const Deadline end = after(10s); Clock::now() < end;) {
      const auto packet = late.receive(after(10ms));
      ASSERT_TRUE(packet);
      if (packet->head.sequence == 99) break;
    }
  }
  for (const Deadline end = after(10s); a_.socket->has_unsent() && Clock::now() < end;) {
    EXPECT_FALSE(a_.receive(after(1ms)));
    while (const auto packet = late.receive(after(1ms))) {
      sequences.push_back(packet->head.sequence);
      EXPECT_EQ(late.rooms.room(packet->head.sequence), payload);
    }
  }
  ASSERT_FALSE(sequences.empty());
  EXPECT_EQ(sequences.back(), 23U);
  EXPECT_TRUE(std::ranges::is_sorted(sequences));
}

TEST_F(TcpSocket, GoesOnWithTheNewerOfTwoConnectionsOfAWorker) {
  RawConnection older(*b_.socket);
  RawConnection newer(*b_.socket);
  const std::string body(1000, 'y');
  b_.rooms.make(0, body.size());
  const std::string packet = on_the_wire(data_head(0, body.size()), body);
  older.write(packet.substr(0, 600));
  EXPECT_FALSE(b_.receive(after(20ms)));
  newer.write(packet);
  ASSERT_TRUE(b_.receive());
  EXPECT_TRUE(older.is_closed_by(after(10s)));
}

// Each says a little and stays.
TEST_F(TcpSocket, LetsAWorkerInThoughStrangersHoldAllPlaces) {
  std::deque<RawConnection> strangers;
  for (int i = 0; i < 100; ++i) strangers.emplace_back(*b_.socket).write("I am");
  EXPECT_FALSE(b_.receive(after(20ms)));
  EXPECT_TRUE(strangers.front().is_closed_by(after(10s))) << "the oldest had to go";
  RawConnection worker(*b_.socket);
  worker.write(on_the_wire(probe_head(1)));
  EXPECT_TRUE(b_.receive());
}

TEST_F(TcpSocket, EndsAConnectionThatAnnouncesTooLargeABody) {
  RawConnection raw(*b_.socket);
  PacketHeader head = probe_head(1);
  head.body_bytes = kMaxBodyBytes + 1;
  head.epoch = 1;
  head.token = kTestToken;
  head.kind = PacketKind::kData;
  seal(head, {});
  raw.write({reinterpret_cast<const char*>(&head), sizeof head});
  EXPECT_FALSE(b_.receive(after(20ms)));
  EXPECT_TRUE(raw.is_closed_by(after(10s)));
  EXPECT_EQ(b_.socket->dropped(), 1);
}

TEST_F(TcpSocket, SendsItsLastWordsBeforeItGoes) {
  const auto payload = pattern_of(8, kMiB);
  for (int i = 0; i < 8; ++i) b_.rooms.make(i, payload.size());
  std::jthread leaving([&] {
    for (int i = 0; i < 8; ++i)
      a_.socket->send_pinned(1, data_head(i, payload.size()), payload.data(), payload.size());
    a_.socket.reset();
  });
  for (int i = 0; i < 8; ++i) {
    const auto packet = b_.receive();
    ASSERT_TRUE(packet) << i;
    EXPECT_EQ(b_.rooms.room(i), payload);
  }
}

TEST(TcpAddress, ThatIsNoneIsRefused) {
  for (const std::string address : {"", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:*",
                                    "tcp://127.0.0.1:x", "ipc://@name", "tcp://[::1:1"})
    EXPECT_EQ(code_thrown_by([&] { (void)parse_tcp_address(address); }), ErrorCode::kUsage)
        << address;
}

// Its thread has committed, and computes; more than the kernel holds of a connection is under way.
TEST(TcpChannel, IsSentWhileTheSenderComputes) {
  Net net(TransportKind::kTcp, 2, {{16 * kMiB, 1}});
  ASSERT_TRUE(send_message(net.sender(0, 1), 0, 16 * kMiB, 3));
  const auto view = net.receiver(0, 1).receive(after(20s));
  ASSERT_TRUE(view);
  EXPECT_TRUE(holds(*view, 3));
  EXPECT_EQ(net.sender(0, 1).counters().resent, 0);
}

}  // namespace
}  // namespace kerf::runtime
