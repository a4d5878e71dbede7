// One suite over every control plane: what runtime/control.h promises of server and client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <thread>

#include "runtime/control.h"
#include "runtime/error.h"
#include "runtime/event_fd.h"
#include "runtime/inproc_control.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using tests::error_of;

// A control plane: one server, and clients on demand.
struct Plane {
  std::unique_ptr<ControlServer> server;
  std::function<std::unique_ptr<ControlClient>()> connect;
};

Plane make_zmq_plane(const std::string& address) {
  Plane plane;
  plane.server = make_control_server(address);
  plane.connect = [bound = plane.server->address()] { return make_control_client(bound); };
  return plane;
}

Plane make_plane(const std::string& kind) {
  if (kind == "tcp") return make_zmq_plane("tcp://127.0.0.1:*");
  if (kind == "ipc") return make_zmq_plane(random_local_address());
  const auto hub = std::make_shared<InprocControl>();
  return {.server = hub->server(), .connect = [hub] { return hub->connect(); }};
}

class ControlOver : public testing::TestWithParam<const char*> {
 protected:
  ControlServer& server() { return *plane_.server; }

  std::unique_ptr<ControlClient> register_client() {
    auto client = plane_.connect();
    client->send({ControlType::kRegister, "hello"});
    return client;
  }

  // The next message, of any peer.
  ControlServer::Incoming expect() {
    auto incoming = server().receive(after(5s));
    EXPECT_TRUE(incoming) << "nothing came";
    return incoming.value_or(ControlServer::Incoming{});
  }

  void expect_dropped() {
    const auto deadline = after(5s);
    while (server().counters().dropped == 0 && Clock::now() < deadline)
      EXPECT_FALSE(server().receive(after(20ms)));
    EXPECT_GE(server().counters().dropped, 1);
  }

  Plane plane_ = make_plane(GetParam());
};

TEST_P(ControlOver, MessagesArriveBothWaysWithTypeAndPayload) {
  const auto client = register_client();
  const auto hello = expect();
  EXPECT_EQ(hello.message.type, ControlType::kRegister);
  EXPECT_EQ(hello.message.payload, "hello");
  server().send(hello.peer, {ControlType::kWelcome, std::string("\0binary\xff", 8)});
  const auto answer = client->receive(after(5s));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->type, ControlType::kWelcome);
  EXPECT_EQ(answer->payload, std::string("\0binary\xff", 8));
}

TEST_P(ControlOver, PeersAreNumberedByTheirFirstMessage) {
  std::vector<std::unique_ptr<ControlClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(register_client());
    EXPECT_EQ(expect().peer, i);
  }
  for (int i = 3; i >= 0; --i) server().send(i, {ControlType::kWork, std::to_string(i)});
  for (int i = 0; i < 4; ++i) {
    const auto mine = clients[static_cast<size_t>(i)]->receive(after(5s));
    ASSERT_TRUE(mine);
    EXPECT_EQ(mine->payload, std::to_string(i));
  }
}

TEST_P(ControlOver, OrderHoldsOverManyMessagesBothWays) {
  const auto client = register_client();
  const int peer = expect().peer;
  const int count = 2000;
  const std::jthread echo([&] {
    for (int i = 0; i < count; ++i)
      if (auto message = client->receive(after(5s))) client->send(std::move(*message));
  });
  for (int i = 0; i < count; ++i) server().send(peer, {ControlType::kWork, std::to_string(i)});
  for (int i = 0; i < count; ++i) ASSERT_EQ(expect().message.payload, std::to_string(i));
}

TEST_P(ControlOver, LargeMessagesArriveWhole) {
  const auto client = register_client();
  const int peer = expect().peer;
  for (const size_t bytes : {size_t{0}, size_t{1}, (size_t{1} << 20) - 9, (size_t{1} << 20) - 8,
                             (size_t{1} << 20) - 7, size_t{5} << 20}) {
    std::string payload(bytes, 'a');
    for (size_t i = 0; i < bytes; i += 997) payload[i] = static_cast<char>(i);
    server().send(peer, {ControlType::kStart, payload});
    const auto received = client->receive(after(10s));
    ASSERT_TRUE(received) << bytes;
    EXPECT_TRUE(received->payload == payload) << bytes;
  }
}

TEST_P(ControlOver, AMessageAboveTheLimitIsABug) {
  const auto client = register_client();
  const int peer = expect().peer;
  for (const auto type : {ControlType::kWork, ControlType::kResults, ControlType::kStart}) {
    const size_t most = type == ControlType::kStart ? size_t{64} << 20 : size_t{1} << 20;
    const auto refused = error_of([&] { server().send(peer, {type, std::string(most + 1, 'x')}); });
    ASSERT_TRUE(refused) << static_cast<int>(type);
    EXPECT_EQ(refused->code(), ErrorCode::kInternal);
    EXPECT_TRUE(error_of([&] { client->send({type, std::string(most + 1, 'x')}); }));
  }
  client->send({ControlType::kResults, std::string(size_t{1} << 20, 'x')});
  EXPECT_EQ(expect().message.payload.size(), size_t{1} << 20);
}

TEST_P(ControlOver, ADeadlineThatPassesGivesNothing) {
  const auto client = register_client();
  static_cast<void>(expect());
  const auto begin = Clock::now();
  EXPECT_FALSE(server().receive(after(50ms)));
  EXPECT_FALSE(client->receive(after(50ms)));
  EXPECT_GE(Clock::now() - begin, 100ms);
  EXPECT_LT(Clock::now() - begin, 2s);
}

TEST_P(ControlOver, WakeEndsAWaitOfTheServerAndOfTheClient) {
  const auto client = register_client();
  static_cast<void>(expect());
  for (const bool of_server : {true, false}) {
    const auto begin = Clock::now();
    const std::jthread waker([&] {
      std::this_thread::sleep_for(30ms);
      of_server ? server().wake() : client->wake();
    });
    if (of_server)
      EXPECT_FALSE(server().receive(after(10s)));
    else
      EXPECT_FALSE(client->receive(after(10s)));
    EXPECT_LT(Clock::now() - begin, 5s);
  }
}

TEST_P(ControlOver, AWatchedDescriptorEndsAWait) {
  EventFd event;
  server().watch(event.descriptor());
  const std::jthread ringer([&] {
    std::this_thread::sleep_for(30ms);
    event.signal();
  });
  EXPECT_FALSE(server().receive(after(10s)));
  EXPECT_TRUE(event.taken());
  server().unwatch(event.descriptor());
  event.signal();
  const auto begin = Clock::now();
  EXPECT_FALSE(server().receive(after(60ms)));
  EXPECT_GE(Clock::now() - begin, 50ms);
}

// Over queues a message has arrived when it was sent; over sockets when the server looked.
TEST_P(ControlOver, FlushWaitsForTheArrival) {
  constexpr int kMessages = 101;  // with the registration
  const auto client = register_client();
  for (int i = 1; i < kMessages; ++i) client->send({ControlType::kResults, std::to_string(i)});
  const bool queues = GetParam() == std::string("inproc");
  EXPECT_EQ(client->flush(after(100ms)), queues) << "nobody has looked yet";
  std::atomic<int> arrived{0};
  const std::jthread server_side([&](const std::stop_token& stop) {
    while (!stop.stop_requested())
      if (server().receive(after(20ms))) ++arrived;
  });
  EXPECT_TRUE(client->flush(after(5s)));
  if (!queues) {
    EXPECT_EQ(arrived, kMessages);
  }
  for (const auto until = after(5s); arrived < kMessages && Clock::now() < until;)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(arrived, kMessages);
}

TEST_P(ControlOver, AClientThatGoesShowsAsDisconnected) {
  auto client = register_client();
  const int peer = expect().peer;
  client.reset();
  const auto begin = Clock::now();
  const auto gone = expect();
  EXPECT_TRUE(gone.disconnected);
  EXPECT_EQ(gone.peer, peer);
  EXPECT_LT(Clock::now() - begin, 1s);
}

TEST_P(ControlOver, AForgottenPeerIsAStranger) {
  const auto client = register_client();
  const int peer = expect().peer;
  server().forget(peer);
  server().send(peer, {ControlType::kWork, "into the void"});
  client->send({ControlType::kResults, "still here"});
  expect_dropped();
}

TEST_P(ControlOver, OfAPeerWhoseEpochIsOverMessagesAreCountedApart) {
  const auto client = register_client();
  server().fence(expect().peer);
  client->send({ControlType::kResults, "too late"});
  client->send({ControlType::kResults, "later"});
  const auto deadline = after(5s);
  while (server().counters().fenced < 2 && Clock::now() < deadline)
    EXPECT_FALSE(server().receive(after(20ms)));
  EXPECT_EQ(server().counters().fenced, 2);
  EXPECT_EQ(server().counters().dropped, 0);
  EXPECT_EQ(server().counters().received, 1) << "its registration";
}

TEST_P(ControlOver, WhoDoesNotRegisterFirstIsAStranger) {
  const auto client = plane_.connect();
  client->send({ControlType::kResults, "guess who"});
  expect_dropped();
}

TEST_P(ControlOver, CountersCountMessages) {
  const auto client = register_client();
  const int peer = expect().peer;
  for (int i = 0; i < 10; ++i) client->send({ControlType::kResults, ""});
  for (int i = 0; i < 10; ++i) static_cast<void>(expect());
  for (int i = 0; i < 5; ++i) server().send(peer, {ControlType::kWork, ""});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(client->receive(after(5s)));
  EXPECT_EQ(client->counters().sent, 11);
  EXPECT_EQ(client->counters().received, 5);
  EXPECT_EQ(server().counters().received, 11);
  EXPECT_EQ(server().counters().sent, 5);
}

INSTANTIATE_TEST_SUITE_P(All, ControlOver, testing::Values("inproc", "ipc", "tcp"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace kerf::runtime
