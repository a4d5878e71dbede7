// Connections of the packet socket: which it keeps, which it ends, and what it does
// where no more can be opened.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "tests/runtime/stream_socket_fixture.h"

namespace kerf::runtime {
namespace {

TEST_P(StreamSocket, EndsAConnectionThatSpeaksForTwoWorkers) {
  b_.socket->expect(2);
  RawConnection raw(*b_.socket);
  raw.write(on_the_wire(probe_head(1), {}, 0) + on_the_wire(probe_head(2), {}, 2));
  ASSERT_TRUE(b_.receive());
  EXPECT_TRUE(raw.is_closed_by(b_));
  EXPECT_EQ(b_.socket->dropped(), 1);
}

TEST_P(StreamSocket, EndsAConnectionWhoseBodyIsNotWhatItsHeaderSays) {
  RawConnection raw(*b_.socket);
  PacketHeader head;
  head.kind = PacketKind::kState;
  std::string packet = on_the_wire(head, "sixteen bytes...");
  packet.back() ^= 1;
  raw.write(packet);
  EXPECT_TRUE(raw.is_closed_by(b_));
  EXPECT_EQ(b_.socket->dropped(), 1);
}

// The one that says its first word last is not for that the newer one.
TEST_P(StreamSocket, KeepsTheNewerConnectionThoughTheOlderSpeaksLast) {
  RawConnection older(*b_.socket);
  RawConnection newer(*b_.socket);
  newer.write(on_the_wire(probe_head(1)));
  ASSERT_TRUE(b_.receive());
  older.write(on_the_wire(probe_head(2)));
  EXPECT_TRUE(older.is_closed_by(b_));
  newer.write(on_the_wire(probe_head(3)));
  const auto packet = b_.receive();
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->head.sequence, 3U);
}

TEST_P(StreamSocket, LetsInWhoKnockedWhileNoMoreFilesCouldBeOpened) {
  RawConnection raw(*b_.socket);
  raw.write(on_the_wire(probe_head(1)));
  {
    const FewFiles few;
    EXPECT_FALSE(b_.receive(after(20ms)));
  }
  EXPECT_TRUE(b_.receive());
}

TEST_P(StreamSocket, ConnectsAgainOnceMoreFilesCanBeOpened) {
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

TEST_P(StreamSocket, GoesQuietlyWhileNoMoreFilesCanBeOpened) {
  a_.socket->send(1, probe_head(1));
  a_.send_all();
  ASSERT_TRUE(b_.receive());
  b_.socket.reset();
  std::this_thread::sleep_for(10ms);
  for (int i = 0; i < 3; ++i) a_.socket->send(1, probe_head(2));
  const FewFiles few;
  a_.socket.reset();
}

// The packet that was under way is sent again from its beginning, over the next connection.
TEST_P(StreamSocket, BeginsAPacketAgainThatABrokenConnectionHadBegun) {
  SocketOfWorker late(2, GetParam());  // that nobody reads, at first
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
  std::optional<Packet> first;
  for (const Deadline end = after(10s); !first && Clock::now() < end;) {
    EXPECT_FALSE(a_.receive(after(0ms)));
    first = late.receive(after(1ms));
  }
  ASSERT_TRUE(first);
  ASSERT_TRUE(a_.socket->has_unsent());
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

TEST_P(StreamSocket, GoesOnWithTheNewerOfTwoConnectionsOfAWorker) {
  RawConnection older(*b_.socket);
  RawConnection newer(*b_.socket);
  const std::string body(1000, 'y');
  b_.rooms.make(0, body.size());
  const std::string packet = on_the_wire(data_head(0, body.size()), body);
  older.write(packet.substr(0, 600));
  EXPECT_FALSE(b_.receive(after(20ms)));
  newer.write(packet);
  ASSERT_TRUE(b_.receive());
  EXPECT_TRUE(older.is_closed_by(b_));
}

// A forked child has all descriptors until it becomes another program: what is closed here is open
// there, and would still be told of.
TEST_P(StreamSocket, ForgetsAConnectionThatAForkedChildKeepsOpen) {
  RawConnection older(*b_.socket);
  older.write(on_the_wire(probe_head(1)));
  ASSERT_TRUE(b_.receive());
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  RawConnection newer(*b_.socket);
  newer.write(on_the_wire(probe_head(2)));
  ASSERT_TRUE(b_.receive());
  older.write(on_the_wire(probe_head(3)));
  EXPECT_FALSE(b_.receive(after(50ms)));
  newer.write(on_the_wire(probe_head(4)));
  const auto packet = b_.receive();
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->head.sequence, 4U);
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

// What comes with a connection is known as soon as the connection is.
TEST_P(StreamSocket, IsNotDrainedWhileANewConnectionIsUnread) {
  RawConnection raw(*b_.socket);
  raw.write(on_the_wire(probe_head(1)));
  b_.socket->wait(after(10s));
  EXPECT_TRUE(b_.look() || !b_.socket->drained());
}

// Each says a little and stays.
TEST_P(StreamSocket, LetsAWorkerInThoughStrangersHoldAllPlaces) {
  std::deque<RawConnection> strangers;
  for (int i = 0; i < 101; ++i) strangers.emplace_back(*b_.socket).write("I am");
  EXPECT_TRUE(strangers.front().is_closed_by(b_)) << "the oldest had to go";
  RawConnection worker(*b_.socket);
  worker.write(on_the_wire(probe_head(1)));
  EXPECT_TRUE(b_.receive());
}

TEST_P(StreamSocket, EndsAConnectionThatAnnouncesTooLargeABody) {
  RawConnection raw(*b_.socket);
  PacketHeader head = probe_head(1);
  head.body_bytes = kMaxBodyBytes + 1;
  head.epoch = 1;
  head.token = kTestToken;
  head.kind = PacketKind::kData;
  seal(head, {});
  raw.write({reinterpret_cast<const char*>(&head), sizeof head});
  EXPECT_TRUE(raw.is_closed_by(b_));
  EXPECT_EQ(b_.socket->dropped(), 1);
}

}  // namespace
}  // namespace kerf::runtime
