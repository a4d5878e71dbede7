// Workers that do not keep the protocol, spoken by hand: each is named, and none hangs the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "runtime/crew.h"
#include "runtime/messages.h"
#include "runtime/wire.h"
#include "tests/support/errors.h"
#include "tests/support/test_worker.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

class LyingWorker : public testing::Test {
 protected:
  LyingWorker() {
    options_.transport = TransportKind::kTcp;
    options_.listen = "tcp://127.0.0.1:*";
    options_.identity = tests::test_identity();
    options_.assemble_timeout = 20s;
    options_.no_progress = 1s;
  }

  // How a run ends whose one worker registers and then says `words`.
  Error end_of_run_with(const std::function<void(ControlClient&)>& words) {
    std::jthread liar;
    std::unique_ptr<Crew> crew;
    const auto ended = tests::error_of([&] {
      crew = Crew::assemble(options_, [&](int here, const std::string& address) {
        if (here == 0) liar = std::jthread([address, words] { speak(address, words); });
      });
      crew->start("words", {""}, {{{}}});
      crew->send(0, {"a task"});
      throw tests::end_of(*crew);
    });
    return *ended;
  }

  static void speak(const std::string& address, const std::function<void(ControlClient&)>& words) {
    const auto client = make_control_client(address);
    client->send({ControlType::kRegister,
                  encode(Registration{.identity = tests::test_identity(), .device = "cpu"})});
    expect(*client, ControlType::kWelcome);
    words(*client);
    // It stays and reports until it is told to stop, or its scheduler is gone.
    for (const auto until = after(20s); Clock::now() < until;) {
      client->send({ControlType::kReport, encode(Report{})});
      if (const auto message = client->receive(after(100ms)))
        if (message->type == ControlType::kStop) break;
    }
    client->send({ControlType::kBye, encode(Mended{})});
    static_cast<void>(client->flush(after(1s)));
  }

  static void expect(ControlClient& client, ControlType type) {
    const auto until = after(10s);
    while (Clock::now() < until)
      if (const auto message = client.receive(until); message && message->type == type) return;
    ADD_FAILURE() << "the scheduler did not send " << static_cast<int>(type);
  }

  static ControlMessage addresses(const std::string& channels,
                                  const std::string& service = "tcp://127.0.0.1:5557") {
    return {ControlType::kAddress, encode(Addresses{channels, service})};
  }

  static void get_ready(ControlClient& client) {
    client.send(addresses("tcp://127.0.0.1:5555"));
    expect(client, ControlType::kStart);
    client.send({ControlType::kReady, {}});
  }

  CrewOptions options_;
};

TEST_F(LyingWorker, CannotSendItsPeersOffHost) {
  const std::string there = "tcp://192.0.2.1:5555";
  for (const ControlMessage& lie : {addresses(there), addresses("tcp://127.0.0.1:5555", there)}) {
    const Error error = end_of_run_with([&](ControlClient& client) { client.send(lie); });
    EXPECT_EQ(error.code(), ErrorCode::kProtocol);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 0"), HasSubstr("192.0.2.1"),
                                       HasSubstr("beyond this host")));
  }
}

TEST_F(LyingWorker, CannotChangeItsAddress) {
  const Error error = end_of_run_with([](ControlClient& client) {
    get_ready(client);
    client.send(addresses("tcp://127.0.0.1:5556"));
  });
  EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 0"), HasSubstr("address again")));
}

TEST_F(LyingWorker, ThatNeverTellsItsAddressIsFound) {
  const Error error = end_of_run_with([](ControlClient&) {});
  EXPECT_EQ(error.code(), ErrorCode::kLost);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 0"), HasSubstr("no progress for 1.")));
}

TEST_F(LyingWorker, ThatNeverGetsReadyIsFound) {
  const Error error = end_of_run_with([](ControlClient& client) {
    client.send(addresses("tcp://127.0.0.1:5555"));
    expect(client, ControlType::kStart);
  });
  EXPECT_EQ(error.code(), ErrorCode::kLost);
}

TEST_F(LyingWorker, ThatSaysGoodbyeBeforeItMayIsNamed) {
  const Error error = end_of_run_with([](ControlClient& client) {
    get_ready(client);
    expect(client, ControlType::kWork);
    client.send({ControlType::kBye, encode(Mended{})});
  });
  EXPECT_EQ(error.code(), ErrorCode::kProtocol);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("worker 0"), HasSubstr("before it was told to stop")));
}

TEST_F(LyingWorker, ThatAnswersMoreThanItWasAskedIsNamed) {
  const Error error = end_of_run_with([](ControlClient& client) {
    get_ready(client);
    expect(client, ControlType::kWork);
    client.send({ControlType::kResults, encode(std::vector<std::string>{"one", "two"})});
  });
  EXPECT_EQ(error.code(), ErrorCode::kProtocol);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 0"), HasSubstr("nobody asked for")));
}

TEST_F(LyingWorker, ThatAnswersWithNothingIsNamed) {
  const Error error = end_of_run_with([](ControlClient& client) {
    get_ready(client);
    expect(client, ControlType::kWork);
    client.send({ControlType::kResults, encode(std::vector<std::string>{})});
  });
  EXPECT_EQ(error.code(), ErrorCode::kProtocol);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 0"), HasSubstr("a batch of no results")));
}

}  // namespace
}  // namespace kerf::runtime
