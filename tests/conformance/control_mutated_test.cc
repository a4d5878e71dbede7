// R8 of the contract on faults: a control connection on which frames are changed, cut short,
// lengthened, given another version, repeated and kept. What is not as it was sent is dropped and
// counted; all that was sent arrives once and in order; nobody's memory grows for it.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "runtime/control.h"
#include "runtime/resident_memory.h"
#include "tests/support/mutated.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

constexpr size_t kVersionAt = 4;
[[maybe_unused]] constexpr int64_t kMostGrowth = int64_t{64} << 20;  // bytes

// Between workers that connect to it and a server. A thread of its own has all of its sockets.
class MutatingProxy {
 public:
  MutatingProxy(std::string server, uint64_t seed, int sound_at_first)
      : server_(std::move(server)), random_(seed), sound_at_first_(sound_at_first) {
    front_.set(zmq::sockopt::linger, 0);
    front_.set(zmq::sockopt::router_handover, true);
    front_.bind("tcp://127.0.0.1:*");
    address_ = front_.get(zmq::sockopt::last_endpoint);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  const std::string& address() const { return address_; }
  int64_t changed() const { return changed_; }

 private:
  // ZeroMQ ends the connection. Who listens lets the worker connect again; a worker to whom that
  // comes never does, and is lost: no scheduler sends it.
  static constexpr size_t kTooMuch = size_t{3} << 20;

  struct Way {
    std::string last;  // frame
    size_t most_more;  // bytes, of one that is lengthened
  };

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<zmq::pollitem_t> items{{front_.handle(), 0, ZMQ_POLLIN, 0}};
      for (auto& [id, back] : backs_) items.push_back({back.handle(), 0, ZMQ_POLLIN, 0});
      zmq::poll(items, 20ms);
      zmq::message_t id;
      zmq::message_t body;
      while (front_.recv(id, zmq::recv_flags::dontwait) && front_.recv(body))
        for (const std::string& frame : harmed(body.to_string(), up_))
          back_of(id.to_string()).send(zmq::buffer(frame), zmq::send_flags::dontwait);
      for (auto& [to, back] : backs_)
        while (back.recv(body, zmq::recv_flags::dontwait))
          for (const std::string& frame : harmed(body.to_string(), down_)) {
            front_.send(zmq::buffer(to), zmq::send_flags::sndmore);
            front_.send(zmq::buffer(frame), zmq::send_flags::dontwait);
          }
    }
  }

  // As the worker would be to the server.
  zmq::socket_t& back_of(const std::string& id) {
    const auto found = backs_.find(id);
    if (found != backs_.end()) return found->second;
    zmq::socket_t back(context_, zmq::socket_type::dealer);
    back.set(zmq::sockopt::linger, 0);
    back.set(zmq::sockopt::routing_id, id);
    back.connect(server_);
    return backs_.emplace(id, std::move(back)).first->second;
  }

  // What goes on in place of a frame.
  std::vector<std::string> harmed(std::string frame, Way& way) {
    const std::string earlier = std::exchange(way.last, frame);
    if (sound_at_first_ > 0) return --sound_at_first_, std::vector{std::move(frame)};
    switch (random_() % 120) {
      case 0:
        return change({tests::mutated(frame, random_)});
      case 1:
        return change({frame.substr(0, random_() % frame.size())});
      case 2:
        return change({frame + std::string(random_() % 8 == 0 ? way.most_more : 1, 'x')});
      case 3:
        frame[kVersionAt] = static_cast<char>(frame[kVersionAt] + 1);
        return change({std::move(frame)});
      case 4:
        return change({frame, earlier, frame});
      case 5:
        return change({});
      case 6:
        frame[random_() % frame.size()] ^= static_cast<char>(1 << random_() % 8);
        return change({std::move(frame)});
      default:
        return {std::move(frame)};
    }
  }
  std::vector<std::string> change(std::vector<std::string> frames) {
    ++changed_;
    return frames;
  }

  const std::string server_;
  std::mt19937_64 random_;
  int sound_at_first_;
  Way up_{.last = {}, .most_more = kTooMuch};
  Way down_{.last = {}, .most_more = 1000};
  std::atomic<int64_t> changed_{0};
  zmq::context_t context_;
  zmq::socket_t front_{context_, zmq::socket_type::router};
  std::map<std::string, zmq::socket_t> backs_;
  std::string address_;
  std::jthread thread_;
};

std::string payload_of(int i) {
  return std::to_string(i) + std::string(static_cast<size_t>(i) * 7919 % 20'000, 'p');
}

// A worker that answers each message with the same, until the last.
void echo(ControlClient& client, int messages) {
  const auto until = after(60s);
  for (int i = 0; i < messages && Clock::now() < until;)
    if (auto message = client.receive(after(100ms))) {
      EXPECT_EQ(message->payload, payload_of(i));
      client.send({ControlType::kResults, std::move(message->payload)});
      ++i;
    }
  EXPECT_TRUE(client.flush(until));
}

class MutatedControl : public testing::Test {
 protected:
  static bool heard_from(const std::optional<ControlServer::Incoming>& incoming) {
    return incoming && !incoming->disconnected;
  }

  std::unique_ptr<ControlServer> server_ = make_control_server("tcp://127.0.0.1:*");
};

TEST_F(MutatedControl, DeliversWhatWasSentOnceAndInOrder) {
  constexpr int kMessages = 300;
  constexpr int kAhead = 16;
  MutatingProxy proxy(server_->address(), 1, 2);
  [[maybe_unused]] const int64_t before = resident_memory().anonymous;
  const auto client = make_control_client(proxy.address());
  client->send({ControlType::kRegister, "me"});
  const auto registered = server_->receive(after(20s));
  ASSERT_TRUE(registered);
  auto echoing = std::async(std::launch::async, [&] { echo(*client, kMessages); });
  const auto send = [&](int i) {
    if (i < kMessages) server_->send(registered->peer, {ControlType::kWork, payload_of(i)});
  };
  for (int i = 0; i < kAhead; ++i) send(i);
  const auto until = after(60s);
  for (int i = 0; i < kMessages && Clock::now() < until;) {
    const auto incoming = server_->receive(after(100ms));
    if (!heard_from(incoming)) continue;
    ASSERT_EQ(incoming->peer, registered->peer);
    ASSERT_EQ(incoming->message.payload, payload_of(i));
    send(i++ + kAhead);
  }
  while (echoing.wait_for(0s) != std::future_status::ready)
    EXPECT_FALSE(heard_from(server_->receive(after(20ms))));
  echoing.get();
  EXPECT_EQ(server_->counters().received, kMessages + 1);
  EXPECT_GT(proxy.changed(), 30);
  EXPECT_GT(server_->counters().dropped, 10);
  EXPECT_GT(server_->counters().resent, 0);
#ifndef __SANITIZE_ADDRESS__  // which keeps what was freed
  EXPECT_LT(resident_memory().anonymous - before, kMostGrowth);
#endif
  EXPECT_GT(client->counters().dropped, 10);
}

// The first frame of all: nobody knows whose it would be.
TEST(MutatedRegistration, ComesAgain) {
  const auto server = make_control_server("tcp://127.0.0.1:*");
  zmq::context_t context;
  zmq::socket_t front(context, zmq::socket_type::router);
  front.set(zmq::sockopt::linger, 0);
  front.bind("tcp://127.0.0.1:*");
  const auto client = make_control_client(front.get(zmq::sockopt::last_endpoint));
  client->send({ControlType::kRegister, "me"});
  std::jthread waiting([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) EXPECT_FALSE(client->receive(after(50ms)));
  });
  zmq::socket_t back(context, zmq::socket_type::dealer);
  back.set(zmq::sockopt::linger, 0);
  back.connect(server->address());
  std::optional<ControlServer::Incoming> incoming;
  int frames = 0;
  for (const auto until = after(20s); !incoming && Clock::now() < until;) {
    zmq::message_t id;
    zmq::message_t body;
    if (front.recv(id, zmq::recv_flags::dontwait) && front.recv(body)) {
      std::string frame = body.to_string();
      if (frames++ == 0) frame.back() ^= 1;
      back.send(zmq::buffer(frame));
    }
    incoming = server->receive(after(20ms));
  }
  ASSERT_TRUE(incoming);
  EXPECT_EQ(incoming->message.payload, "me");
}

}  // namespace
}  // namespace kerf::runtime
