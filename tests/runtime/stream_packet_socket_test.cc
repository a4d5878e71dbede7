// The packet socket over plain connections: what it makes of streams of bytes, in whatever pieces
// they come and wherever they end.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <thread>
#include <tuple>

#include "runtime/control.h"
#include "tests/runtime/stream_socket_fixture.h"

namespace kerf::runtime {
namespace {

TEST_P(StreamSocket, PutsPayloadInItsPlaceAndShowsItThere) {
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
TEST_P(StreamSocket, CarriesMoreThanConnectionsHoldBothWaysAtOnce) {
  constexpr int kMessages = 40;
  const auto payload = pattern_of(3, kMiB);
  const auto exchange = [&](SocketOfWorker& worker, int peer) {
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

TEST_P(StreamSocket, FindsPacketsInWhateverPiecesTheyCome) {
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

TEST_P(StreamSocket, SkipsPayloadThatNobodyWants) {
  RawConnection raw(*b_.socket);
  raw.write(on_the_wire(data_head(9, 100'000), std::string(100'000, 'x')));
  raw.write(on_the_wire(probe_head(4)));
  const auto packet = b_.receive();
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->head.kind, PacketKind::kProbe);
  EXPECT_EQ(packet->head.sequence, 4U);
}

// So whoever waits for this worker, or wants to drive in its place, does not wait for that sender.
TEST_P(StreamSocket, ThrowsAwayALittleOfWhatIsNotWantedAtATime) {
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

TEST_P(StreamSocket, ReadsAllConnectionsInTurns) {
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

// What it has not sent by then nobody waits for.
TEST_P(StreamSocket, HasNoLastWordsOnceInterrupted) {
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

TEST_P(StreamSocket, SendsItsLastWordsBeforeItGoes) {
  const auto payload = pattern_of(8, kMiB / 4);  // half a second is all there is
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

INSTANTIATE_TEST_SUITE_P(Over, StreamSocket, testing::Values("ipc", "tcp"), name_of_scheme);

TEST(SocketAddress, ThatIsNoneIsRefused) {
  for (const std::string& address :
       {std::string(), std::string("tcp://"), std::string("tcp://127.0.0.1"),
        std::string("tcp://127.0.0.1:*"), std::string("tcp://127.0.0.1:x"),
        std::string("tcp://[::1:1"), std::string("ipc://@"), std::string("ipc:///etc/socket"),
        "ipc://@" + std::string(108, 'x')})
    EXPECT_EQ(code_thrown_by([&] { (void)parse_socket_address(address); }), ErrorCode::kUsage)
        << address;
}

TEST(SocketAddress, MayBeAsLongAsTheSystemTakes) {
  const std::string longest = "ipc://@" + std::string(107, 'x');
  const OpenFile listener = listen_ipc(longest);
  EXPECT_GE(begin_connect(parse_socket_address(longest)).number(), 0);
}

TEST(SocketAddress, ThatIsTakenIsNamed) {
  const std::string address = random_local_address();
  const OpenFile first = listen_ipc(address);
  try {
    const OpenFile second = listen_ipc(address);
    FAIL() << "two listen there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), testing::HasSubstr(address));
  }
}

// Anybody of the host may connect to an abstract socket whose name he knows.
TEST(SocketAddress, OfThisHostLetsInNobodyElsesProcesses) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may become somebody else";
  const std::string address = random_local_address();
  const OpenFile listener = listen_ipc(address);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    const bool is_other = ::setresuid(65'534, 65'534, 65'534) == 0;
    const SocketAddress to = parse_socket_address(address);
    const OpenFile socket(::socket(AF_UNIX, SOCK_STREAM, 0));  // that does not ask whose it is
    const bool is_let_in =
        ::connect(socket.number(), reinterpret_cast<const sockaddr*>(&to.socket), to.length) == 0;
    char byte = 0;
    pollfd item{socket.number(), POLLIN, 0};
    const bool is_closed =
        ::poll(&item, 1, 10'000) == 1 && ::recv(socket.number(), &byte, 1, 0) == 0;
    ::_exit(is_other && is_let_in && is_closed ? 0 : 1);
  }
  pollfd item{listener.number(), POLLIN, 0};
  EXPECT_EQ(::poll(&item, 1, 10'000), 1);
  EXPECT_FALSE(accept_connection(listener));
  EXPECT_EQ(errno, EACCES);
  int status = -1;
  EXPECT_EQ(::waitpid(stranger, &status, 0), stranger);
  EXPECT_EQ(status, 0) << "it was let in";
  const OpenFile friends = begin_connect(parse_socket_address(address));
  EXPECT_TRUE(accept_connection(listener));
}

// What took the name of a worker that is gone is not told the run's token.
TEST(SocketAddress, OfThisHostIsNotConnectedToSomebodyElses) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may become somebody else";
  const std::string address = random_local_address();
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    if (::setresuid(65'534, 65'534, 65'534) != 0) ::_exit(1);
    const OpenFile listener = listen_ipc(address);
    std::ignore = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_LT(begin_connect(parse_socket_address(address)).number(), 0);
  EXPECT_EQ(errno, EACCES);
  ::kill(stranger, SIGKILL);
  EXPECT_EQ(::waitpid(stranger, nullptr, 0), stranger);
  ::close(ready[0]);
  ::close(ready[1]);
}

// Its thread has committed, and computes; the connection holds a few hundred of them.
TEST(ShmChannel, IsSentWhileTheSenderComputes) {
  constexpr int kMessages = 20'000;
  Net net(TransportKind::kShm, 2, {{64, kMessages}});
  for (int i = 0; i < kMessages; ++i) ASSERT_TRUE(send_message(net.sender(0, 1), 0, 8, i));
  const Deadline end = after(10s);
  for (int i = 0; i < kMessages; ++i) {
    const auto view = net.receiver(0, 1).receive(end);
    ASSERT_TRUE(view) << i;
    EXPECT_EQ(view->tag[0], i);
  }
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
