// Workers of another host in a crew: what they have of the run's files, and what becomes of those
// when they are lost.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <functional>
#include <thread>

#include "runtime/crew.h"
#include "runtime/file.h"
#include "runtime/messages.h"
#include "runtime/open_file.h"
#include "runtime/process.h"
#include "runtime/store_messages.h"
#include "runtime/wire.h"
#include "tests/runtime/crew_of_words.h"
#include "tests/runtime/joining_workers.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_worker.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using tests::end_of;
using tests::wait_for_report;
namespace fs = std::filesystem;

// Worker 0 is of the scheduler's host, worker 1 says that it is elsewhere.
class StoreCrew : public testing::Test {
 protected:
  StoreCrew() {
    options_.workers = 2;
    options_.transport = TransportKind::kTcp;
    options_.identity = tests::test_identity();
    options_.assemble_timeout = 20s;
    options_.tell = [this](const std::string& text) { hear_(text); };
    crew_ = tests::assemble_anywhere(options_, [&](const std::string& address) {
      address_ = address;
      start_worker({"--index", "0"});
      start_elsewhere();
    });
    crew_->allow(folder_.path(), StoreAccess::kWrite);
    crew_->start("words", {"", ""}, tests::no_channels(2));
  }

  void start_worker(const std::vector<std::string>& more) {
    workers_.push_back(tests::start_worker(address_, more));
  }
  // A container shares sockets, and no files.
  void start_elsewhere() { start_worker({"--index", "1", "--container", "elsewhere"}); }

  std::string answer_to(int worker, const std::string& task) {
    crew_->send(worker, {task});
    const auto batch = crew_->next(after(10s));
    return batch ? batch->results.at(0) : "no answer";
  }
  std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }
  size_t count_files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  // Worker 1 dies with a file of which so much has been written.
  void die_half_way(int mebibytes) {
    crew_->send(1, {kerf::format("pour {} {}", in_folder("half"), mebibytes)});
    ASSERT_TRUE(wait_for_report(*crew_, 1, "'poured'"));
    EXPECT_EQ(count_files(), 1u) << "the unfinished one";
    workers_.back().kill(SIGKILL);
    const Error error = end_of(*crew_);
    EXPECT_EQ(error.code(), ErrorCode::kLost);
    EXPECT_THAT(error.message(), HasSubstr("worker 1"));
  }

  const tests::TemporaryFolder folder_;
  CrewOptions options_;
  std::function<void(const std::string&)> hear_ = [](const std::string&) {};
  std::string address_;
  std::vector<Process> workers_;
  std::unique_ptr<Crew> crew_;
};

TEST_F(StoreCrew, AllReadAndWriteTheFilesOfTheRunWhereverTheyAre) {
  for (const int writer : {0, 1})
    for (const int reader : {0, 1}) {
      const std::string file = in_folder(kerf::format("{} {}", writer, reader).replace(1, 1, "-"));
      const std::string text = kerf::format("from {} to {}", writer, reader);
      EXPECT_EQ(answer_to(writer, kerf::format("store {} {}", file, text)), "stored");
      EXPECT_EQ(answer_to(reader, "fetch " + file), text);
      EXPECT_EQ(read_file(file), text);
    }
  crew_->stop();
}

TEST_F(StoreCrew, OutsideTheRunsFoldersAWorkerOfAnotherHostEndsTheRun) {
  const tests::TemporaryFolder outside;
  crew_->send(1, {"store " + (outside / "file").string() + " text"});
  const Error error = end_of(*crew_);
  EXPECT_EQ(error.code(), ErrorCode::kProtocol);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 1"), HasSubstr((outside / "file").string()),
                                     HasSubstr("in no folder")));
  EXPECT_FALSE(crew_->can_restart());
  EXPECT_FALSE(fs::exists(outside / "file"));
}

TEST_F(StoreCrew, OneThatIsKilledHalfWayLeavesNothing) {
  die_half_way(3);
  crew_.reset();
  EXPECT_EQ(count_files(), 0u);
}

TEST_F(StoreCrew, WhatItKeptIsThereForWhoTakesItsPlaceAndWhatItDidNotEndIsNot) {
  const std::string kept = crew_->kept_file(1, 0);
  ASSERT_NE(kept, "");
  EXPECT_EQ(answer_to(1, "store " + kept + " what it held"), "stored");
  EXPECT_EQ(answer_to(0, "store " + crew_->kept_file(0, 0) + " another"), "stored");
  die_half_way(3);
  ASSERT_TRUE(crew_->can_restart());
  crew_->restart([&](int here, const std::string&) {
    if (here == 1) start_elsewhere();
  });
  EXPECT_EQ(count_files(), 0u);
  EXPECT_EQ(answer_to(1, "fetch " + kept), "what it held");
  EXPECT_EQ(answer_to(0, "fetch " + crew_->kept_file(0, 0)), "another");
  crew_->stop();
}

TEST_F(StoreCrew, AWorkerMayNotHaveWhatIsKeptForAnother) {
  crew_->send(1, {"fetch " + crew_->kept_file(0, 0)});
  EXPECT_THAT(end_of(*crew_).message(),
              AllOf(HasSubstr("worker 1"), HasSubstr("kept for another worker")));
}

// A pipe that nobody reads holds up whoever opens it to write: here the store's thread. At the end
// somebody reads it, so that a crew whose test failed half way ends.
class HeldUpStoreCrew : public StoreCrew {
 protected:
  HeldUpStoreCrew() { EXPECT_EQ(::mkfifo(pipe_.c_str(), 0600), 0); }
  ~HeldUpStoreCrew() override {
    const OpenFile reader = read_pipe();
    crew_.reset();
  }
  OpenFile read_pipe() const {
    return OpenFile(::open(pipe_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }

  const std::string pipe_ = in_folder("pipe");
};

TEST_F(HeldUpStoreCrew, ADiskThatTakesItsTimeDelaysNobodyElse) {
  crew_->send(1, {"store " + pipe_ + " text"});
  ASSERT_TRUE(wait_for_report(*crew_, 1, "the scheduler to open " + pipe_));
  const auto until = after(kSilence + 1s);
  while (Clock::now() < until) {
    EXPECT_EQ(answer_to(0, "echo here"), "here");
    std::this_thread::sleep_for(50ms);
  }
  std::string text(4, '\0');
  const OpenFile reader = read_pipe();
  ASSERT_GE(reader.number(), 0);
  const auto batch = crew_->next(after(10s));
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->results.at(0), "stored");
  EXPECT_EQ(::read(reader.number(), text.data(), text.size()), 4);
  EXPECT_EQ(text, "text");
  crew_->stop();
}

TEST_F(HeldUpStoreCrew, ADiskThatDoesNotAnswerIsNamedByTheRestartThatWaitsForIt) {
  crew_->send(1, {"store " + pipe_ + " text"});
  ASSERT_TRUE(wait_for_report(*crew_, 1, "the scheduler to open " + pipe_));
  workers_.back().kill(SIGKILL);
  EXPECT_EQ(end_of(*crew_).code(), ErrorCode::kLost);
  std::vector<std::string> told;
  std::vector<OpenFile> readers;
  hear_ = [&](const std::string& text) {
    told.push_back(text);
    readers.push_back(read_pipe());
  };
  crew_->restart([&](int here, const std::string&) {
    if (here == 1) start_elsewhere();
  });
  EXPECT_THAT(told, testing::ElementsAre(HasSubstr("waits for " + pipe_)));
  EXPECT_EQ(answer_to(1, "echo here"), "here");
  crew_->stop();
}

// Spoken by hand.
class LyingStoreWorker : public testing::Test {
 protected:
  // How a run ends of a worker of this host or another that sends these behind its welcome, ready
  // or not.
  static Error end_of_run_with(const std::string& host, bool ready,
                               const std::vector<std::string>& payloads) {
    const auto lie = [=](ControlClient& client) {
      for (const std::string& payload : payloads) client.send({ControlType::kStore, payload});
    };
    std::jthread liar;
    std::unique_ptr<Crew> crew;
    const auto ended = tests::error_of([&] {
      crew = crew_of(liar, [=](const std::string& address) { speak(address, host, ready, lie); });
      throw end_of(*crew);
    });
    return *ended;
  }

  // Of one worker, which has a task, and may write there.
  static std::unique_ptr<Crew> crew_of(std::jthread& worker,
                                       const std::function<void(const std::string&)>& speaks,
                                       CrewOptions options = {}, const fs::path& allowed = {}) {
    options.transport = TransportKind::kTcp;
    options.listen = "tcp://127.0.0.1:*";
    options.identity = tests::test_identity();
    options.assemble_timeout = 20s;
    auto crew = Crew::assemble(options, [&](int here, const std::string& address) {
      if (here == 0) worker = std::jthread([=] { speaks(address); });
    });
    if (!allowed.empty()) crew->allow(allowed, StoreAccess::kWrite);
    crew->start("words", {""}, {{{}}});
    crew->send(0, {"a task"});
    return crew;
  }

  static void speak(const std::string& address, const std::string& host, bool ready,
                    const std::function<void(ControlClient&)>& say) {
    const auto client = make_control_client(address);
    Registration registration{.identity = tests::test_identity(), .device = "cpu"};
    registration.reach.host = host;
    registration.reach.sockets = reach_of("cpu").sockets;
    client->send({ControlType::kRegister, encode(registration)});
    for (const auto until = after(20s); Clock::now() < until;) {
      client->send({ControlType::kReport, encode(Report{})});
      const auto message = client->receive(after(100ms));
      if (!message) continue;
      if (message->type == ControlType::kWelcome) {
        if (!ready) say(*client);
        client->send({ControlType::kAddress,
                      encode(Addresses{"tcp://127.0.0.1:5555", "tcp://127.0.0.1:5556"})});
      }
      if (message->type == ControlType::kStart) client->send({ControlType::kReady, {}});
      if (message->type == ControlType::kWork && ready) say(*client);
      if (message->type == ControlType::kStop) break;
    }
    client->send({ControlType::kBye, encode(Mended{})});
    static_cast<void>(client->flush(after(1s)));
  }

  static std::string request() {
    return encode(StoreRequest{.word = StoreWord::kOpen, .path = "/etc/hostname"});
  }
};

TEST_F(LyingStoreWorker, IsNamedWhateverItAsks) {
  const std::string here = reach_of("cpu").host;
  const std::string unopened =
      encode(StoreRequest{.word = StoreWord::kWrite, .file = 3, .bytes = "x"});
  const std::string much = encode(StoreRequest{
      .word = StoreWord::kWrite, .bytes = std::string(kMaxControlMessage - 1000, 'x')});
  struct Lie {
    std::string host;
    bool ready;
    std::vector<std::string> payloads;
    const char* told;
  };
  for (const Lie& lie :
       std::vector<Lie>{{"elsewhere", true, {request()}, "in no folder"},
                        {"elsewhere", false, {request()}, "files of the run that it may not use"},
                        {here, true, {request()}, "in no folder"},
                        {"elsewhere", true, {"garbage"}, "worker 0"},
                        {"elsewhere", true, {unopened}, "had not opened"},
                        {"elsewhere", true, {much}, "at once"}}) {
    const Error error = end_of_run_with(lie.host, lie.ready, lie.payloads);
    EXPECT_EQ(error.code(), ErrorCode::kProtocol) << lie.told;
    EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 0"), HasSubstr(lie.told)));
  }
}

// Its reports are behind what it writes, on a slow network for longer than it may stand still.
TEST_F(LyingStoreWorker, ThatWritesIsOneThatGetsOn) {
  CrewOptions options;
  options.no_progress = 1'000ms;
  const tests::TemporaryFolder folder;
  const StoreRequest file{.word = StoreWord::kCreate, .path = (folder / "file").string()};
  const auto write_slowly = [&](ControlClient& client) {
    client.send({ControlType::kStore, encode(file)});
    for (const auto until = after(3s); Clock::now() < until; std::this_thread::sleep_for(100ms)) {
      client.send(
          {ControlType::kStore, encode(StoreRequest{.word = StoreWord::kWrite, .bytes = "some"})});
      static_cast<void>(client.receive(Clock::time_point{}));
    }
    client.send({ControlType::kResults, encode(std::vector<std::string>{"written"})});
  };
  std::jthread worker;
  const auto crew = crew_of(
      worker, [&](const std::string& address) { speak(address, "elsewhere", true, write_slowly); },
      options, folder.path());
  const auto batch = crew->next(after(20s));
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->results.at(0), "written");
  crew->stop();
}

}  // namespace
}  // namespace kerf::runtime
