// A worker of another host that asks for files of the run, on and on, and says that it has the
// answers or does not: they are kept until it does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <zmq.hpp>

#include "runtime/crew.h"
#include "runtime/file.h"
#include "runtime/messages.h"
#include "runtime/store_messages.h"
#include "runtime/wire.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

const Identity kIdentity{.build = "deaf", .instructions = "any"};
constexpr int64_t kWindow = int64_t{16} << 20;  // of a crew of one
const int64_t kReads = 2 * most_unacknowledged(kWindow) / static_cast<int64_t>(kStorePiece);

// A control connection by hand.
class Asker {
 public:
  Asker(const std::string& address, bool acknowledges)
      : acknowledges_(acknowledges), socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvtimeo, 2'000);
    socket_.connect(address);
  }

  void say(ControlType type, const std::string& payload) {
    const uint64_t acknowledged = acknowledges_ ? came_ : 0;
    std::string body(reinterpret_cast<const char*>(&acknowledged), sizeof acknowledged);
    socket_.send(zmq::buffer(make_frame(
        {.type = static_cast<uint16_t>(type), .epoch = 0, .sequence = said_++}, body + payload)));
  }
  // The type of the next message; empty: none comes any more.
  std::optional<ControlType> hear() {
    zmq::message_t message;
    while (socket_.recv(message)) {
      FrameFault fault = FrameFault::kNone;
      const auto frame =
          parse_frame({static_cast<const char*>(message.data()), message.size()}, fault);
      if (!frame || frame->header.type >= 0x100) continue;  // of the link itself
      ++came_;
      return static_cast<ControlType>(frame->header.type);
    }
    return {};
  }
  bool await(ControlType type) {
    for (auto heard = hear(); heard; heard = hear())
      if (*heard == type) return true;
    return false;
  }

 private:
  const bool acknowledges_;
  uint64_t said_ = 0;
  uint64_t came_ = 0;
  zmq::context_t context_;
  zmq::socket_t socket_;
};

// How many answers it had.
int64_t ask_on_and_on(Asker& asker, const std::string& file) {
  asker.say(ControlType::kRegister,
            encode(Registration{.identity = kIdentity, .device = "cpu", .reach = {"elsewhere"}}));
  EXPECT_TRUE(asker.await(ControlType::kWelcome));
  asker.say(ControlType::kAddress,
            encode(Addresses{"tcp://127.0.0.1:5555", "tcp://127.0.0.1:5556"}));
  EXPECT_TRUE(asker.await(ControlType::kStart));
  asker.say(ControlType::kReady, {});
  const auto ask = [&](const StoreRequest& request) {
    asker.say(ControlType::kStore, encode(request));
  };
  ask({.word = StoreWord::kOpen, .path = file});
  if (!asker.await(ControlType::kStored)) return 0;
  constexpr int kAtATime = 16;
  int64_t asked = 0;
  int64_t answered = 0;
  while (answered < kReads) {
    for (; asked < std::min<int64_t>(kReads, answered + kAtATime); ++asked)
      ask({.word = StoreWord::kRead, .count = kStorePiece});
    if (!asker.await(ControlType::kStored)) break;
    ++answered;
  }
  if (answered == kReads) asker.say(ControlType::kResults, encode(std::vector<std::string>{"all"}));
  return answered;
}

// What the run ends with that such a worker is in, or says.
std::string end_of_run(bool acknowledges, int64_t& answered) {
  const tests::TemporaryFolder folder;
  write_file_atomic(folder / "file", std::string(kStorePiece, 'x'));
  CrewOptions options;
  options.transport = TransportKind::kTcp;
  options.listen = "tcp://127.0.0.1:*";
  options.identity = kIdentity;
  options.assemble_timeout = 20s;
  std::jthread worker;
  std::string end = "nothing came";
  const auto ended = tests::error_of([&] {
    const auto crew = Crew::assemble(options, [&](int here, const std::string& address) {
      if (here > 0) return;
      worker = std::jthread([&, address] {
        Asker asker(address, acknowledges);
        answered = ask_on_and_on(asker, (folder / "file").string());
      });
    });
    crew->allow(folder.path(), StoreAccess::kRead);
    crew->start("words", {""}, {{{}}});
    crew->send(0, {"ask"});
    const auto batch = crew->next(after(30s));
    if (batch) end = batch->results.at(0);
  });
  if (ended) end = kerf::format("{}: {}", to_string(ended->code()), ended->what());
  return end;
}

TEST(Answers, ThatSomebodyNeverSaysThatHeHasEndTheRun) {
  int64_t answered = 0;
  EXPECT_THAT(end_of_run(false, answered),
              AllOf(HasSubstr("protocol: worker 0"), HasSubstr("never says that it has")));
  EXPECT_LT(answered * static_cast<int64_t>(kStorePiece), most_unacknowledged(kWindow) + kWindow);
}

TEST(Answers, ThatSomebodySaysThatHeHasAreNotKept) {
  int64_t answered = 0;
  EXPECT_EQ(end_of_run(true, answered), "all");
  EXPECT_EQ(answered, kReads);
}

}  // namespace
}  // namespace kerf::runtime
