// What a channel over sockets makes of strangers and garbage: it drops and counts them, and goes
// on.
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/control.h"
#include "runtime/sockets/stream_socket.h"
#include "tests/conformance/besieged_channel.h"
#include "tests/support/no_places.h"

namespace kerf::runtime {
namespace {

TEST_P(Besieged, DropsGarbage) {
  const std::string sound = Intruder::bytes_of(from_worker_0(PacketKind::kData, 0));
  const std::vector<std::vector<std::string>> garbage{
      {""},
      {"hello"},
      {std::string(1000, '\xff')},
      {std::string(sizeof(PacketHeader), '\0')},
      {sound.substr(0, sizeof(PacketHeader) - 1)},
      {sound + "x"},
      {sound},  // without a checksum
      {sound, "body", "and more"},
      {"", "", "", "", ""},
  };
  for (const auto& frames : garbage) intruder_.send_garbage(frames);
  constexpr int64_t kSilent = 2;  // a connection without a byte says nothing
  expect_strangers(static_cast<int64_t>(garbage.size()) - kSilent);
  expect_it_works();
}

TEST_P(Besieged, DropsEveryFlippedBit) {
  PacketHeader sound = from_worker_0(PacketKind::kProbe, 0);
  seal(sound, {});
  int64_t sent = 0;
  for (size_t bit = 0; bit < 8 * sizeof sound; ++bit) {
    std::string bytes = Intruder::bytes_of(sound);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    intruder_.send_garbage({bytes});
    ++sent;
  }
  expect_strangers(sent);
  expect_it_works();
}

TEST_P(Besieged, DropsStrangers) {
  PacketHeader head = from_worker_0(PacketKind::kData, 0);
  head.token ^= 1;
  intruder_.send_garbage(head, chunk(8));
  head = from_worker_0(PacketKind::kData, 0);
  head.epoch = 2;
  intruder_.send_garbage(head, chunk(8));
  head = from_worker_0(PacketKind::kData, 0);
  head.version = kDescriptorVersion + 1;
  intruder_.send_garbage(head, chunk(8));
  head = from_worker_0(PacketKind::kData, 0);
  head.from = 17;
  intruder_.send_garbage(head, chunk(8));
  head = from_worker_0(static_cast<PacketKind>(99), 0);
  intruder_.send_garbage(head);
  expect_strangers(5);
  expect_it_works();
}

TEST_P(Besieged, CutsOffWhoSendsTooMuch) {
  intruder_.send({std::string(3 << 20, 'x')});
  EXPECT_FALSE(net_.receiver(0, 1).receive(after(200ms)));
  EXPECT_EQ(net_[1].dropped(), 1) << "it was read to its end";
  expect_it_works();
  intruder_.send_garbage({"garbage"});  // once it is connected again
  expect_strangers(2);
}

TEST_P(Besieged, IsNotHeldByAFlood) {
  constexpr int kFlood = 900;
  for (int i = 0; i < kFlood; ++i) intruder_.send_garbage({"garbage"});
  expect_it_works();
  expect_strangers(kFlood);
  for (int i = 0; i < kFlood; ++i) intruder_.send_garbage({"garbage"});
  expect_it_works();
}

// Its compute thread is elsewhere.
TEST_P(Besieged, GetsThroughAFloodByItself) {
  constexpr int kFlood = 900;
  for (int i = 0; i < kFlood; ++i) intruder_.send_garbage({"garbage"});
  for (const Deadline end = after(5s); net_[1].dropped() < kFlood && Clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(net_[1].dropped(), kFlood);
  expect_it_works();
}

// What an endpoint reads with, without an endpoint that reads.
std::unique_ptr<PacketSocket> packet_socket(TransportKind kind) {
  return make_packet_socket("worker 1", {kind == TransportKind::kTcp ? "tcp" : "ipc"});
}

// So whoever looks for packets, and keeps others from doing so, comes back soon.
TEST_P(HostileChannel, LooksAtALittleOfAFloodAtATime) {
  const auto socket = packet_socket(GetParam());
  const Intruder intruder(socket->address());
  constexpr int kFlood = 900;
  for (int i = 0; i < kFlood; ++i) intruder.send_garbage({"garbage"});
  tests::NoPlaces places;
  const Deadline deadline = after(10s);
  for (int64_t before = 0; before < kFlood && Clock::now() < deadline;) {
    socket->wait(after(10ms));
    EXPECT_FALSE(places.receive(*socket));
    const int64_t more = socket->dropped() - before;
    EXPECT_LE(more, 64);
    EXPECT_TRUE(more < 64 || !socket->drained()) << "wait() waits for the next";
    before += more;
  }
  EXPECT_EQ(socket->dropped(), kFlood);
}

// Somebody who listens where a worker did, and answers.
class Impostor {
 public:
  explicit Impostor(TransportKind kind)
      : address_(random_local_address()),
        listener_(kind == TransportKind::kTcp ? listen_tcp("127.0.0.1", address_)
                                              : listen_ipc(address_)) {}
  const std::string& address() const { return address_; }
  // On the next connection, if there is one by now.
  void answer(const std::string& text) {
    auto connection = accept_connection(listener_);
    if (!connection) return;
    ASSERT_EQ(::send(connection->number(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    connections_.push_back(std::move(*connection));
  }
  size_t answered() const { return connections_.size(); }

 private:
  std::string address_;
  const OpenFile listener_;
  std::vector<OpenFile> connections_;
};

// What took the address of a worker that is gone answers, but does not speak as a worker does: who
// waited for it would wait for ever. Once alone is no proof: somebody on the way may have said it.
TEST_P(HostileChannel, NamesTheWorkerWhoseAddressIsNoWorkers) {
  Impostor other(GetParam());
  const auto socket = packet_socket(GetParam());
  socket->connect(3, other.address());
  PacketHeader head;
  head.kind = PacketKind::kProbe;
  tests::NoPlaces places;
  std::string thrown;
  for (const Deadline end = after(10s); thrown.empty() && Clock::now() < end;) try {
      other.answer(std::string(64, '\0'));
      EXPECT_FALSE(places.receive(*socket));
      socket->send(3, head, "");
      std::this_thread::sleep_for(1ms);
    } catch (const Error& error) {
      thrown = error.what();
    }
  EXPECT_THAT(thrown,
              testing::AllOf(testing::StartsWith("worker 1: "), testing::HasSubstr("worker 3"),
                             testing::HasSubstr(other.address())));
  EXPECT_GT(other.answered(), 1U);
  EXPECT_EQ(socket->dropped(), static_cast<int64_t>(other.answered()));
}

TEST_P(HostileChannel, NamesWhoseAddressIsOfAnotherHost) {
  Net net(GetParam(), 2);
  Wiring wiring = net.wiring(0, one_lane(1, 1));
  wiring.addresses[1] = "tcp://8.8.8.8:1";
  try {
    net[0].open(wiring, after(1s));
    FAIL() << "it was opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("worker 0: a connection to worker 1: "));
  }
}

const auto kOverSockets =
    testing::Values(TransportKind::kShm, TransportKind::kIpc, TransportKind::kTcp);
INSTANTIATE_TEST_SUITE_P(Over, Besieged, kOverSockets, name_of_kind);
INSTANTIATE_TEST_SUITE_P(Over, HostileChannel, kOverSockets, name_of_kind);

}  // namespace
}  // namespace kerf::runtime
