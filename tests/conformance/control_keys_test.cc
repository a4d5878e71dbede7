// R9 of the contract on faults: a control server with keys. Its workers are served as ever, and
// strangers get nothing through, each kind of them told of at most once a second.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <zmq.hpp>

#include "runtime/control.h"
#include "runtime/error.h"
#include "runtime/keys.h"
#include "runtime/resident_memory.h"
#include "runtime/sockets/stream_socket.h"
#include "runtime/unanswered.h"
#include "runtime/wire.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

OpenFile connect_plainly(const std::string& address) {
  OpenFile made = begin_connect(parse_socket_address(address));
  pollfd item{made.number(), POLLOUT, 0};
  EXPECT_EQ(::poll(&item, 1, 10'000), 1);
  EXPECT_TRUE(is_connected(made));
  return made;
}

constexpr auto kWatched = 2500ms;  // long enough for three notes of a kind

class GuardedControl : public testing::Test {
 protected:
  GuardedControl() {
    make_keys(folder_ / "keys");
    make_keys(folder_ / "others");
    server_ = serve();
  }

  using Notice = std::function<void(const std::string&)>;
  // Every note is kept, and then `read`.
  std::unique_ptr<ControlServer> serve(const std::string& address = "tcp://127.0.0.1:*",
                                       const Notice& read = {}) {
    return make_control_server(
        address, kStrangersAtMost,
        {.keys = (folder_ / "keys").string(), .notice = [this, read](const std::string& note) {
           {
             const std::lock_guard lock(mutex_);
             notes_.push_back(note);
           }
           if (read) read(note);
         }});
  }
  // The stranger's socket tries again and again, as a worker does.
  zmq::socket_t stranger() {
    zmq::socket_t socket(context_, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::reconnect_ivl, 10);
    return socket;
  }
  void show(zmq::socket_t& socket, const WorkerKeys& keys) {
    socket.set(zmq::sockopt::curve_serverkey, keys.scheduler_key);
    socket.set(zmq::sockopt::curve_publickey, keys.public_key);
    socket.set(zmq::sockopt::curve_secretkey, keys.secret_key);
  }
  WorkerKeys keys_of(const char* name) { return read_worker_keys(folder_ / name); }
  static std::string registration() {
    std::string payload(8, '\0');  // an acknowledgement of nothing
    payload += "let me in";
    return make_frame({.type = static_cast<uint16_t>(ControlType::kRegister)}, payload);
  }

  // One who comes again and again; nothing of him arrives.
  zmq::socket_t knock(const WorkerKeys* keys = nullptr) {
    zmq::socket_t socket = stranger();
    if (keys != nullptr) show(socket, *keys);
    socket.connect(server_->address());
    socket.send(zmq::buffer(registration()), zmq::send_flags::dontwait);
    EXPECT_FALSE(server_->receive(after(20ms)));
    return socket;
  }
  void knock_until_refused(int64_t times) {
    std::vector<zmq::socket_t> strangers;
    for (const auto end = after(10s); server_->counters().refused < times && Clock::now() < end;)
      strangers.push_back(knock());
    EXPECT_GE(server_->counters().refused, times);
  }
  // They come all the time, and `note` is told at most once a second.
  void expect_refused(const WorkerKeys* keys, const std::string& note) {
    std::vector<zmq::socket_t> strangers;
    for (const auto end = after(kWatched); Clock::now() < end;) strangers.push_back(knock(keys));
    EXPECT_GE(server_->counters().refused, 20);
    EXPECT_EQ(server_->counters().received, 0);
    const auto is_it = [&](const std::string& told) { return told.find(note) != told.npos; };
    const auto notes = told();
    EXPECT_THAT(std::ranges::count_if(notes, is_it), AllOf(Ge(2), Le(3))) << notes.front();
    // One that has no key may have gone before we looked.
    EXPECT_THAT(notes, Each(AnyOf(HasSubstr(note), HasSubstr("left before it showed a key"))));
    strangers.clear();
    expect_served();
  }
  std::vector<std::string> told() {
    const std::lock_guard lock(mutex_);
    return notes_;
  }
  // One of the run's workers gets through.
  void expect_served() {
    const auto client = make_control_client(server_->address(), (folder_ / "keys").string());
    client->send({ControlType::kRegister, "good"});
    const auto incoming = server_->receive(after(10s));
    ASSERT_TRUE(incoming);
    EXPECT_EQ(incoming->message.payload, "good");
    EXPECT_EQ(incoming->host, "127.0.0.1");
    server_->send(incoming->peer, {ControlType::kWelcome, "welcome"});
    const auto welcome = client->receive(after(10s));
    ASSERT_TRUE(welcome);
    EXPECT_EQ(welcome->payload, "welcome");
    server_->forget(incoming->peer);
  }

  const tests::TemporaryFolder folder_;
  zmq::context_t context_;
  std::mutex mutex_;
  std::vector<std::string> notes_;
  std::unique_ptr<ControlServer> server_;
};

TEST_F(GuardedControl, WorkersWithItsKeysAreServed) {
  expect_served();
  EXPECT_EQ(server_->counters().refused, 0);
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(GuardedControl, AStrangerWithoutAKeyIsRefused) { expect_refused(nullptr, "has no key"); }

// ZeroMQ hangs up by itself, and may tell nobody.
TEST_F(GuardedControl, BytesOfAnythingElseEndTheirConnection) {
  const OpenFile plain = connect_plainly(server_->address());
  const std::string request = "GET / HTTP/1.1\r\n\r\n" + std::string(1000, ' ');
  ASSERT_EQ(::send(plain.number(), request.data(), request.size(), MSG_NOSIGNAL),
            std::ssize(request));
  std::array<char, 100> answer;
  ssize_t count = 1;
  for (pollfd item{plain.number(), POLLIN, 0}; count > 0 && ::poll(&item, 1, 10'000) == 1;)
    count = ::recv(plain.number(), answer.data(), answer.size(), 0);
  EXPECT_LE(count, 0) << "it hung up";
  EXPECT_FALSE(server_->receive(after(100ms)));
  EXPECT_EQ(server_->counters().received, 0);
  expect_served();
}

TEST_F(GuardedControl, WhoComesAndLeavesIsToldOf) {
  connect_plainly(server_->address());
  const auto end = after(10s);
  while (told().empty() && Clock::now() < end) EXPECT_FALSE(server_->receive(after(20ms)));
  EXPECT_EQ(server_->counters().refused, 1);
  EXPECT_THAT(told(), ElementsAre(HasSubstr("refused a connection: it left before")));
}

// ZeroMQ's own thread waits for the gate where that falls behind, and serves nobody.
TEST_F(GuardedControl, NotesThatNobodyReadsHoldUpNobody) {
  std::promise<void> reading;
  server_ = serve("tcp://127.0.0.1:*",
                  [is_read = reading.get_future().share()](const std::string&) { is_read.wait(); });
  knock_until_refused(20);
  EXPECT_THAT(told(), SizeIs(1)) << "and is being told";
  expect_served();
}

TEST_F(GuardedControl, NotesThatCannotBeToldEndNothing) {
  server_ =
      serve("tcp://127.0.0.1:*", [](const std::string&) { throw std::runtime_error("full"); });
  const auto end = after(10s);
  while (told().size() < 2 && Clock::now() < end) knock();
  EXPECT_THAT(told(), SizeIs(2));
  knock_until_refused(server_->counters().refused + 5);
  expect_served();
}

TEST_F(GuardedControl, WhoWasRefusedSinceTheLastNoteIsToldOfInTheEnd) {
  knock_until_refused(5);
  const int64_t refused = server_->counters().refused;
  server_.reset();
  int64_t sum = 0;
  for (const std::string& note : told()) {
    int64_t many = 1;  // "a connection"
    std::ignore = std::sscanf(note.c_str(), "refused %" SCNd64, &many);
    sum += many;
  }
  EXPECT_GE(sum, refused);
}

TEST_F(GuardedControl, AWorkerOfAnotherSchedulerIsRefused) {
  const WorkerKeys theirs = keys_of("others");
  expect_refused(&theirs, "another scheduler's key");
}

// It knows the scheduler's public key: without an answer to ZAP it would get in.
TEST_F(GuardedControl, AWorkerWhoseKeyIsNotListedIsRefused) {
  WorkerKeys mixed = keys_of("others");
  mixed.scheduler_key = keys_of("keys").scheduler_key;
  expect_refused(&mixed, "its key is not listed");
  EXPECT_THAT(told().front(), HasSubstr("127.0.0.1"));
}

TEST_F(GuardedControl, WhatIsTooLargeNeverArrives) {
  const int64_t before = resident_memory().anonymous;
  auto worker = stranger();
  show(worker, keys_of("keys"));
  worker.connect(server_->address());
  for (int i = 0; i < 8; ++i) {
    worker.send(zmq::buffer(std::string(32 << 20, 'x')));
    EXPECT_FALSE(server_->receive(after(50ms)));
  }
  worker.close();
  EXPECT_EQ(server_->counters().received, 0);
  expect_served();
  EXPECT_LT(resident_memory().anonymous, before + (int64_t{400} << 20))
      << "what waits here, and no more";
}

// Its own run had this address, and these keys, before. ZeroMQ makes no other connection where the
// end of that run cut a handshake short: then the next worker tries.
TEST_F(GuardedControl, AWorkerOfAnotherRunIsNotHeard) {
  for (int i = 0; i < 6 && server_->counters().dropped == 0; ++i) {
    const auto client = make_control_client(server_->address(), (folder_ / "keys").string());
    client->send({ControlType::kRegister, "of the other run"});
    ASSERT_TRUE(server_->receive(after(10s)));
    const std::string address = server_->address();
    server_.reset();
    server_ = serve(address);
    for (int sent = 0; sent < 50; ++sent) client->send({ControlType::kResults, "of the other run"});
    const auto end = after(5s);
    while (server_->counters().dropped == 0 && Clock::now() < end)
      EXPECT_FALSE(server_->receive(after(20ms)));
    EXPECT_FALSE(server_->receive(after(500ms)));
  }
  EXPECT_GE(server_->counters().dropped, 1);
  EXPECT_THAT(told(), testing::Contains(HasSubstr("of no worker of this run")));
  EXPECT_LE(told().size(), 3U);
  expect_served();
}

// A worker gives itself to nobody but its scheduler.
TEST_F(GuardedControl, AnotherSchedulerGetsNoWorker) {
  const auto impostor = make_control_server("tcp://127.0.0.1:*", kStrangersAtMost,
                                            {.keys = (folder_ / "others").string()});
  const auto client = make_control_client(impostor->address(), (folder_ / "keys").string());
  client->send({ControlType::kRegister, "who are you"});
  EXPECT_FALSE(impostor->receive(after(500ms)));
  EXPECT_FALSE(client->flush(after(100ms)));
}

// A port of this host that nobody listens at, and that nobody else gets before it is let go.
class SilentPort {
 public:
  SilentPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof place;
    auto* const any = reinterpret_cast<sockaddr*>(&place);
    KERF_CHECK(::bind(socket_->number(), any, length) == 0 &&
               ::getsockname(socket_->number(), any, &length) == 0);
    address_ = kerf::format("tcp://127.0.0.1:{}", ntohs(place.sin_port));
  }
  const std::string& address() const { return address_; }
  void let_go() { socket_.reset(); }

 private:
  std::optional<OpenFile> socket_;
  std::string address_;
};

// What a worker that registers at `address` by these keys says of itself, long before it gives up.
class Unheard {
 public:
  Unheard(const std::string& address, const std::string& keys)
      : client_(make_control_client(address, keys,
                                    {.patience = 60s, .tell = [this](const std::string& what) {
                                       told_.push_back(what);
                                     }})) {
    client_->send({ControlType::kRegister, "hear me"});
  }
  bool is_answered() const { return client_->receive(after(10ms)).has_value(); }
  const std::vector<std::string>& told() const { return told_; }

 private:
  std::vector<std::string> told_;
  std::unique_ptr<ControlClient> client_;
};

TEST_F(GuardedControl, AWorkerThatIsSentToAHostOfNoNameSaysSo) {
  Unheard lost("tcp://nowhere.invalid:5555", (folder_ / "keys").string());
  for (const auto end = after(60s); lost.told().empty() && Clock::now() < end;)
    EXPECT_FALSE(lost.is_answered());
  EXPECT_THAT(lost.told(), ElementsAre(AllOf(HasSubstr("no way to host 'nowhere.invalid': "),
                                             HasSubstr("; waiting, for 60 s at most"))));
}

// Each says it once, and tries again: one gets in as soon as its scheduler is there.
TEST_F(GuardedControl, AWorkerThatGetsNoAnswerSaysWhatStandsBetweenThem) {
  std::filesystem::create_directory(folder_ / "mixed");
  std::filesystem::permissions(folder_ / "mixed", std::filesystem::perms::owner_all);
  std::filesystem::copy(folder_ / "others" / "worker.secret", folder_ / "mixed" / "worker.secret");
  std::filesystem::copy(folder_ / "keys" / "scheduler.public",
                        folder_ / "mixed" / "scheduler.public");
  const auto keys = [&](const char* name) { return (folder_ / name).string(); };
  const auto open = make_control_server("tcp://127.0.0.1:*");
  SilentPort later;
  Unheard unlisted(server_->address(), keys("mixed"));
  Unheard of_another(server_->address(), keys("others"));
  Unheard without(server_->address(), "");
  Unheard needless(open->address(), keys("keys"));
  Unheard early(later.address(), keys("keys"));
  Unheard served(server_->address(), keys("keys"));
  const std::array all{&unlisted, &of_another, &without, &needless, &early};
  const auto begin = Clock::now();
  bool heard = false;
  const auto look = [&] {
    for (Unheard* const each : all) EXPECT_FALSE(each->is_answered());
    if (const auto incoming = server_->receive(after(10ms)))
      server_->send(incoming->peer, {ControlType::kWelcome, "welcome"});
    heard = served.is_answered() || heard;
  };
  const auto has_told = [](const Unheard* each) { return !each->told().empty(); };
  while (!std::ranges::all_of(all, has_told) && Clock::now() < begin + 20s) look();
  EXPECT_GE(Clock::now(), begin + 2s);
  for (const auto end = after(1s); Clock::now() < end;) look();
  EXPECT_THAT(unlisted.told(), ElementsAre(AllOf(HasSubstr("refuses the key in " + keys("mixed")),
                                                 HasSubstr("workers.allowed"))));
  EXPECT_THAT(of_another.told(), ElementsAre(HasSubstr("shown that it is the scheduler of " +
                                                       keys("others") + "/scheduler.public")));
  EXPECT_THAT(without.told(), ElementsAre(HasSubstr("give --keys DIR")));
  EXPECT_THAT(needless.told(),
              ElementsAre(AllOf(HasSubstr("has no keys"), HasSubstr("start the run with --keys"))));
  EXPECT_THAT(early.told(), ElementsAre(HasSubstr("nobody listens at " + later.address() +
                                                  " yet; waiting, for 60 s")));
  EXPECT_TRUE(heard);
  EXPECT_THAT(served.told(), IsEmpty());
  later.let_go();
  const auto come = serve(later.address());
  std::optional<ControlServer::Incoming> registered;
  for (const auto end = after(10s); !registered && Clock::now() < end;) {
    EXPECT_FALSE(early.is_answered());
    registered = come->receive(after(20ms));
  }
  EXPECT_TRUE(registered);
}

TEST_F(GuardedControl, BeyondThisHostKeysAreDemanded) {
  for (const bool serving : {true, false}) {
    const auto error = tests::error_of([&] {
      if (serving)
        make_control_server("tcp://192.0.2.1:5555");
      else
        make_control_client("tcp://192.0.2.1:5555");
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_THAT(error->message(), HasSubstr("kerf keys make"));
  }
  const auto error = tests::error_of([&] { serve("tcp://192.0.2.1:5555"); });
  ASSERT_TRUE(error) << "an address of nobody here";
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace kerf::runtime
