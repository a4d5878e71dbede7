// What strangers, garbage and other versions do to a control server: they are dropped and counted.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <zmq.hpp>

#include "runtime/control.h"
#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

constexpr uint16_t kRegister = static_cast<uint16_t>(ControlType::kRegister);
const std::string kNoAcknowledgement(8, '\0');

// A frame as a link would send it.
std::string frame_of(uint16_t type, uint64_t sequence, const std::string& payload) {
  return make_frame({.type = type, .epoch = 0, .sequence = sequence}, kNoAcknowledgement + payload);
}

std::string of_version(std::string frame, uint16_t version) {
  std::memcpy(frame.data() + 4, &version, sizeof version);
  const uint32_t sum = crc32c(frame.substr(0, 28) + frame.substr(32));
  std::memcpy(frame.data() + 28, &sum, sizeof sum);
  return frame;
}

class HostileControl : public testing::Test {
 protected:
  HostileControl() : stranger_(context_, zmq::socket_type::dealer) {
    stranger_.set(zmq::sockopt::linger, 0);
    stranger_.connect(server_->address());
  }

  void send(const std::string& bytes) { stranger_.send(zmq::buffer(bytes)); }

  void expect_message(const std::string& payload) {
    const auto incoming = server_->receive(after(10s));
    ASSERT_TRUE(incoming);
    EXPECT_EQ(incoming->message.payload, payload);
  }

  // Nothing is delivered, and a registered worker is served as ever.
  void expect_dropped(int64_t least) {
    const auto deadline = after(5s);
    while (server_->counters().dropped < least && Clock::now() < deadline)
      EXPECT_FALSE(server_->receive(after(20ms)));
    EXPECT_GE(server_->counters().dropped, least);
    const auto client = make_control_client(server_->address());
    client->send({ControlType::kRegister, "good"});
    const auto incoming = server_->receive(after(5s));
    ASSERT_TRUE(incoming);
    EXPECT_EQ(incoming->message.payload, "good");
    server_->send(incoming->peer, {ControlType::kWelcome, "welcome"});
    const auto welcome = client->receive(after(5s));
    ASSERT_TRUE(welcome);
    EXPECT_EQ(welcome->payload, "welcome");
    server_->forget(incoming->peer);
  }

  std::unique_ptr<ControlServer> server_ = make_control_server("tcp://127.0.0.1:*");
  zmq::context_t context_;
  zmq::socket_t stranger_;
};

TEST_F(HostileControl, GarbageOfAnyLengthIsDropped) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(random() % 200, '\0');
    for (auto& byte : bytes) byte = static_cast<char>(random());
    send(bytes);
  }
  expect_dropped(200);
}

TEST_F(HostileControl, AFloodOfGarbageHoldsNobody) {
  constexpr int kFlood = 900;
  for (int i = 0; i < kFlood; ++i) send("garbage");
  const auto deadline = after(10s);
  for (int64_t before = 0; before < kFlood && Clock::now() < deadline;) {
    std::this_thread::sleep_for(10ms);  // for the flood to rise
    EXPECT_FALSE(server_->receive(Clock::time_point{}));
    EXPECT_LE(server_->counters().dropped - before, 64) << "one call looked at the deadline";
    before = server_->counters().dropped;
  }
  expect_dropped(kFlood);
}

TEST_F(HostileControl, WhoSendsMoreThanIsReadIsHeldBack) {
  zmq::socket_t stranger(context_, zmq::socket_type::dealer);
  stranger.set(zmq::sockopt::linger, 0);
  stranger.set(zmq::sockopt::sndhwm, 1);
  stranger.set(zmq::sockopt::sndtimeo, 300);
  stranger.connect(server_->address());
  int sent = 0;
  while (sent < 500 && stranger.send(zmq::buffer(std::string(1 << 20, 'x')))) ++sent;
  EXPECT_LT(sent, 250) << "they lie in our memory";
  expect_dropped(1);
}

TEST_F(HostileControl, TruncatedAndFlippedRegistrationsAreDropped) {
  const std::string frame = frame_of(kRegister, 0, "who am I");
  int sent = 0;
  for (size_t bytes = 0; bytes < frame.size(); ++bytes, ++sent) send(frame.substr(0, bytes));
  for (size_t bit = 0; bit < frame.size() * 8; ++bit, ++sent) {
    std::string flipped = frame;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    send(flipped);
  }
  expect_dropped(sent);
}

TEST_F(HostileControl, MessagesOfStrangersAreDropped) {
  send(frame_of(static_cast<uint16_t>(ControlType::kResults), 0, "results"));
  send(frame_of(kRegister, 5, "not my first"));
  send(frame_of(0x100, 0, ""));  // a link's own frames
  send(frame_of(0x102, 0, ""));
  send(frame_of(0x7777, 0, ""));
  expect_dropped(5);
}

TEST_F(HostileControl, MessagesOfSeveralPartsAreDropped) {
  for (int i = 0; i < 3; ++i) {
    stranger_.send(zmq::buffer(frame_of(kRegister, 0, "part one")), zmq::send_flags::sndmore);
    stranger_.send(zmq::buffer(std::string("part two")));
  }
  expect_dropped(3);
}

TEST_F(HostileControl, OversizedMessagesNeverArrive) {
  send(std::string(4 << 20, 'x'));
  EXPECT_FALSE(server_->receive(after(200ms)));
  expect_dropped(0);
}

TEST_F(HostileControl, BytesThatAreNotZeroMqNeverArrive) {
  const std::string address = server_->address();
  const int plain = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  ASSERT_EQ(::connect(plain, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const std::string request = "GET / HTTP/1.1\r\n\r\n" + std::string(10'000, '\xff');
  EXPECT_GT(::send(plain, request.data(), request.size(), MSG_NOSIGNAL), 0);
  EXPECT_FALSE(server_->receive(after(100ms)));
  expect_dropped(0);
  ::close(plain);
}

TEST_F(HostileControl, AnotherVersionIsDroppedAndToldOurs) {
  send(of_version(frame_of(kRegister, 0, "from the future"), kProtocol + 1));
  expect_dropped(1);
  stranger_.set(zmq::sockopt::rcvtimeo, 5000);
  zmq::message_t answer;
  ASSERT_TRUE(stranger_.recv(answer));
  FrameFault fault = FrameFault::kNone;
  const auto frame = parse_frame(answer.to_string_view(), fault);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->header.type, static_cast<uint16_t>(ControlType::kRefuse));
}

TEST_F(HostileControl, ARegisteredPeerThatSendsGarbageOnlyLosesIt) {
  send(frame_of(kRegister, 0, "me"));
  expect_message("me");
  send("garbage");
  send(frame_of(0x7777, 1, "no such type"));
  send(frame_of(static_cast<uint16_t>(ControlType::kResults), 0, "again"));  // came before
  send(frame_of(static_cast<uint16_t>(ControlType::kResults), 9, "too early"));
  send(make_frame({.type = static_cast<uint16_t>(ControlType::kResults), .sequence = 1}, "short"));
  send(frame_of(static_cast<uint16_t>(ControlType::kResults), 1, "good"));
  expect_message("good");
  EXPECT_EQ(server_->counters().dropped, 5);
}

TEST_F(HostileControl, APeerThatNeverEndsItsMessageIsHeldToTheLimit) {
  send(frame_of(kRegister, 0, "me"));
  EXPECT_TRUE(server_->receive(after(5s)));
  const std::string piece((size_t{1} << 20) - 8, 'x');
  for (uint64_t sequence = 1; sequence <= 100; ++sequence)
    send(frame_of(0x8000 | static_cast<uint16_t>(ControlType::kResults), sequence, piece));
  send(frame_of(static_cast<uint16_t>(ControlType::kResults), 101, "end"));
  send(frame_of(static_cast<uint16_t>(ControlType::kResults), 102, "next"));
  expect_message("next");
}

TEST(LocalControl, ProcessesOfOtherUsersGetNoConnection) {
  constexpr int kCannot = 77;
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  const auto server = make_control_server(random_local_address());
  const auto address = server->address();
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    try {
      if (::setuid(65534) != 0) ::_exit(kCannot);
      const auto client = make_control_client(address);
      client->send({ControlType::kRegister, "stranger"});
      ::_exit(client->flush(after(1s)) ? 2 : 0);
    } catch (const std::exception&) {
      ::_exit(3);
    }
  }
  int status = -1;
  while (::waitpid(stranger, &status, WNOHANG) == 0) EXPECT_FALSE(server->receive(after(20ms)));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannot)
    GTEST_SKIP() << "this root may not be somebody else";
  EXPECT_EQ(status, 0);
}

TEST_F(HostileControl, RegistrationsThatAreForgottenLeaveRoom) {
  for (int i = 0; i < 300; ++i) {
    const auto client = make_control_client(server_->address());
    client->send({ControlType::kRegister, "flood"});
    const auto incoming = server_->receive(after(5s));
    ASSERT_TRUE(incoming);
    server_->send(incoming->peer, {ControlType::kRefuse, "no"});
    server_->forget(incoming->peer);
  }
  expect_dropped(0);
}

TEST(ControlServer, TakesSoManyPeersAtATime) {
  const auto server = make_control_server(random_local_address(), 2);
  std::vector<std::unique_ptr<ControlClient>> clients;
  const auto register_one = [&] {
    clients.push_back(make_control_client(server->address()));
    clients.back()->send({ControlType::kRegister, "me"});
  };
  for (int i = 0; i < 2; ++i) {
    register_one();
    ASSERT_TRUE(server->receive(after(5s)));
  }
  register_one();
  const auto deadline = after(5s);
  while (server->counters().dropped == 0 && Clock::now() < deadline)
    EXPECT_FALSE(server->receive(after(20ms)));
  EXPECT_GE(server->counters().dropped, 1);
  clients.pop_back();
  server->forget(0);
  register_one();
  const auto incoming = server->receive(after(5s));
  ASSERT_TRUE(incoming);
  EXPECT_EQ(incoming->peer, 2);
}

TEST(HostileScheduler, AnotherVersionIsAnErrorThatSaysSo) {
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::linger, 0);
  router.bind("tcp://127.0.0.1:*");
  const auto client = make_control_client(router.get(zmq::sockopt::last_endpoint));
  client->send({ControlType::kRegister, "me"});
  zmq::message_t id;
  zmq::message_t body;
  ASSERT_TRUE(router.recv(id));
  ASSERT_TRUE(router.recv(body));
  router.send(zmq::buffer(id.to_string()), zmq::send_flags::sndmore);
  router.send(zmq::buffer(of_version(frame_of(2, 0, "no"), kProtocol + 1)));
  try {
    static_cast<void>(client->receive(after(5s)));
    FAIL() << "took it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kProtocol);
    EXPECT_THAT(error.message(), testing::HasSubstr("version"));
  }
}

}  // namespace
}  // namespace kerf::runtime
