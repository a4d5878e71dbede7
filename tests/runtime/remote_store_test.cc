// What a worker of another host may not do with the run's files, and what its store holds to.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <random>
#include <thread>

#include "runtime/event_fd.h"
#include "runtime/kept_file.h"
#include "runtime/open_file.h"
#include "runtime/store.h"
#include "tests/runtime/store_wire.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class RemoteStores : public StoreFolder {
 protected:
  // How the run ends of a worker that does this.
  std::string end_of(const std::function<void(Store&)>& act) {
    Wire wire(rules_);
    const auto error = tests::error_of([&] { act(wire.store()); });
    if (!wire.breach()) return error ? error->what() : "in order";
    EXPECT_EQ(wire.breach()->code(), ErrorCode::kProtocol);
    EXPECT_EQ(error.value().code(), ErrorCode::kInterrupted);
    return wire.breach()->what();
  }
  static void write(Store& store, const fs::path& path) { store.create(path)->commit(); }

  const tests::TemporaryFolder outside_;
};

TEST_F(RemoteStores, NothingOutsideTheRunsFoldersIsReadOrWritten) {
  write_file_atomic(outside_ / "secret", "secret");
  fs::create_directory(folder_ / "in");
  fs::create_directory_symlink(outside_.path(), folder_ / "out");
  fs::create_symlink(outside_ / "secret", folder_ / "link");
  fs::create_symlink(outside_ / "new", folder_ / "to-be");
  for (const fs::path& path :
       {outside_ / "secret", folder_.path() / ".." / outside_.path().filename() / "secret",
        folder_ / "out" / "secret", folder_ / "in" / ".." / "out" / "secret", folder_ / "link",
        folder_ / "none" / ".." / ".." / outside_.path().filename() / "secret",
        fs::path("/proc/self/environ"), fs::path("secret"), folder_ / "..", folder_ / "in" / "",
        fs::path(folder_.path().string() + "-beside"),
        fs::path(folder_.path().string() + std::string("/a\0b", 4))}) {
    EXPECT_THAT(end_of([&](Store& store) { store.open(path); }), HasSubstr("it asked for '"))
        << path;
    EXPECT_THAT(end_of([&](Store& store) { write(store, path); }), HasSubstr("it asked for '"))
        << path;
  }
  EXPECT_THAT(end_of([&](Store& store) { write(store, folder_ / "to-be"); }),
              HasSubstr("symbolic link"));
  EXPECT_EQ(text_of(outside_ / "secret"), "secret");
  EXPECT_FALSE(fs::exists(outside_ / "new"));
  EXPECT_EQ(end_of([&](Store& store) { write(store, folder_ / "in" / ".." / "in" / "fine"); }),
            "in order");
}

TEST_F(RemoteStores, WhatMayBeReadMayNotBeWritten) {
  rules_.allow(outside_.path(), StoreAccess::kRead);
  write_file_atomic(outside_ / "file", "text");
  EXPECT_EQ(end_of([&](Store& store) { store.open(outside_ / "file"); }), "in order");
  for (const char* name : {"file", "other"})
    EXPECT_THAT(end_of([&](Store& store) { write(store, outside_ / name); }),
                HasSubstr("in no folder"));
  EXPECT_THAT(end_of([&](Store& store) { store.extend(outside_ / "file", 0); }),
              HasSubstr("in no folder"));
  EXPECT_EQ(text_of(outside_ / "file"), "text");
}

TEST_F(RemoteStores, WhatIsKeptIsOfOneWorker) {
  const KeptFile kept("a test");
  rules_.keep(1, kept.path());
  EXPECT_THAT(end_of([&](Store& store) { store.open(kept.path()); }),
              HasSubstr("kept for another worker"));
}

TEST_F(RemoteStores, KeepNothingInMemoryThatHasNoRoom) {
  const KeptFile kept("a test");
  rules_.keep(0, kept.path());
  for (const bool has_room : {true, false}) {
    StoreDesk desk(0, rules_, has_room ? 0 : INT64_MAX);
    desk.answer({.word = StoreWord::kCreate, .file = 0, .path = kept.path()});
    const StoreAnswer answer = desk.answer({.word = StoreWord::kWrite, .file = 0, .bytes = "x"});
    EXPECT_EQ(answer.code, has_room ? kStoreDone : static_cast<int32_t>(ErrorCode::kUnavailable));
    desk.answer({.word = StoreWord::kCreate, .file = 1, .path = (folder_ / "file").string()});
    EXPECT_EQ(desk.answer({.word = StoreWord::kWrite, .file = 1, .bytes = "x"}).code, kStoreDone);
  }
  EXPECT_GT(memory_to_leave(), 0);
}

TEST_F(RemoteStores, HoldNoMoreThanTheirWindow) {
  Wire wire(rules_);
  EXPECT_EQ(wire.window() * kWorkers, kStoreWindows);
  const size_t size = 5 * static_cast<size_t>(wire.window());
  const auto file = wire.store().create(folder_ / "file");
  file->write(std::string(size, 'x'));
  file->commit();
  EXPECT_EQ(whole(*wire.store().open(folder_ / "file")).size(), size);
  EXPECT_LE(wire.most_unanswered(), wire.window());
  EXPECT_GT(wire.most_unanswered(), wire.window() / 8) << "nothing was sent ahead";
  for (const int workers : {1, 4, 128}) EXPECT_LE(store_window(workers) * workers, kStoreWindows);
}

TEST_F(RemoteStores, ReadAheadNoMoreThanWasReadOn) {
  constexpr size_t kStep = 1000;
  write_file_atomic(folder_ / "file", some_bytes(12 * kStorePiece));
  Wire wire(rules_);
  const auto file = wire.store().open(folder_ / "file");
  for (const uint64_t place : {uint64_t{0}, uint64_t{5000}, uint64_t{10}}) read(*file, place, 8);
  EXPECT_EQ(wire.asked_to_read(), (std::vector<uint32_t>{8, 8, 8})) << "nothing was read on";
  const uint64_t begun = 5000;
  for (uint64_t at = begun; at + kStep < file->bytes(); at += kStep) {
    read(*file, at, kStep);
    const std::vector<uint32_t> asked = wire.asked_to_read();
    const uint64_t bytes = std::accumulate(asked.begin() + 3, asked.end(), uint64_t{0});
    ASSERT_LE(bytes, 2 * (at + kStep - begun));
    ASSERT_LE(bytes, at + kStep - begun + (size_t{1} << 20));
  }
  EXPECT_LT(wire.asked_to_read().size(), 60u) << "a request for each small read";
}

TEST_F(RemoteStores, WhoWaitsWhenTheRunEndsIsInterrupted) {
  Activity activity;
  RemoteStore store([](const ControlMessage&) {}, store_window(1), activity);
  std::jthread ends([&] {
    while (activity.report().awaits.empty()) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(activity.report().awaits, "the scheduler to open /a/b");
    store.interrupt();
  });
  const auto error = tests::error_of([&] { store.open("/a/b"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kInterrupted);
  EXPECT_TRUE(tests::error_of([&] { store.create("/a/b"); }));
}

TEST_F(RemoteStores, WhoLeavesLeavesNothingUnfinished) {
  std::promise<void> two;
  std::promise<void> three;
  {
    StoreThread thread(rules_, kWorkers, [&, told = 0]() mutable {
      if (++told == 2) two.set_value();
      if (told == 3) three.set_value();
    });
    for (const char* name : {"one", "two"})
      thread.take(0, encode(StoreRequest{.word = StoreWord::kCreate,
                                         .file = name[0] == 'o' ? 0 : 1,
                                         .path = (folder_ / name).string()}));
    ASSERT_EQ(two.get_future().wait_for(10s), std::future_status::ready);
    EXPECT_EQ(count_files(), 2u);
    thread.forget(0);
    for (const auto end = after(10s); count_files() > 0 && Clock::now() < end;)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(count_files(), 0u);
    thread.take(
        1, encode(StoreRequest{.word = StoreWord::kCreate, .path = (folder_ / "three").string()}));
    ASSERT_EQ(three.get_future().wait_for(10s), std::future_status::ready);
    EXPECT_EQ(count_files(), 1u);
  }
  EXPECT_EQ(count_files(), 0u) << "the epoch ended";
}

// Requests that no worker of ours makes, behind one that opens file 0 to read and file 1 to write.
class HostileRequests : public StoreFolder {
 protected:
  HostileRequests() {
    write_file_atomic(folder_ / "read", "12345");
    desk_.answer({.word = StoreWord::kOpen, .file = 0, .path = (folder_ / "read").string()});
    desk_.answer({.word = StoreWord::kCreate, .file = 1, .path = (folder_ / "new").string()});
  }
  StoreDesk desk_{0, rules_};
};

TEST_F(HostileRequests, AreRefused) {
  const std::string path = (folder_ / "other").string();
  const auto too_much = static_cast<uint32_t>(kStorePiece + 1);
  for (const StoreRequest& request : std::vector<StoreRequest>{
           {.word = StoreWord::kOpen, .file = 0, .path = path},
           {.word = StoreWord::kOpen, .file = -1, .path = path},
           {.word = StoreWord::kOpen, .file = kMostStoreFiles, .path = path},
           {.word = StoreWord::kOpen, .file = 2},
           {.word = StoreWord::kOpen, .file = 2, .path = std::string(kMostStorePath + 1, 'a')},
           {.word = StoreWord::kOpen, .file = 2, .place = 1, .path = path},
           {.word = StoreWord::kCreate, .file = 2, .path = path, .bytes = "x"},
           {.word = StoreWord::kRead, .file = 1, .count = 1},
           {.word = StoreWord::kRead, .file = 0, .count = 0},
           {.word = StoreWord::kRead, .file = 0, .count = too_much},
           {.word = StoreWord::kRead, .file = 2, .count = 1},
           {.word = StoreWord::kRead, .file = 0, .count = 1, .path = path},
           {.word = StoreWord::kWrite, .file = 0, .bytes = "x"},
           {.word = StoreWord::kWrite, .file = 2, .bytes = "x"},
           {.word = StoreWord::kWrite, .file = 1, .bytes = std::string(too_much, 'x')},
           {.word = StoreWord::kCommit, .file = 0},
           {.word = StoreWord::kSettle, .file = 3},
           {.word = StoreWord::kClose, .file = 4},
           {.word = StoreWord{0}, .file = 0},
           {.word = StoreWord{77}, .file = 1}}) {
    const auto error = tests::error_of([&] { desk_.answer(request); });
    ASSERT_TRUE(error) << static_cast<int>(request.word) << " of " << request.file;
    EXPECT_EQ(error->code(), ErrorCode::kProtocol);
  }
  EXPECT_EQ(desk_.answer({.word = StoreWord::kRead, .file = 0, .place = 2, .count = 3}).bytes,
            "345");
}

TEST_F(HostileRequests, BeyondTheEndOfAFileAreFailures) {
  for (const uint64_t place : {uint64_t{5}, uint64_t{6}, UINT64_MAX}) {
    const StoreAnswer answer =
        desk_.answer({.word = StoreWord::kRead, .file = 0, .place = place, .count = 1});
    EXPECT_EQ(answer.code, static_cast<int32_t>(ErrorCode::kUsage)) << place;
    EXPECT_EQ(answer.bytes, "");
  }
}

TEST_F(HostileRequests, OfAFileThatBecameShorterAreFailuresWithoutBytes) {
  fs::resize_file(folder_ / "read", 2);
  const StoreAnswer answer =
      desk_.answer({.word = StoreWord::kRead, .file = 0, .place = 1, .count = 4});
  EXPECT_EQ(answer.code, static_cast<int32_t>(ErrorCode::kUsage));
  EXPECT_EQ(answer.bytes, "");
}

TEST_F(HostileRequests, BehindACommitAreRefused) {
  EXPECT_EQ(desk_.answer({.word = StoreWord::kCommit, .file = 1}).code, kStoreDone);
  EXPECT_TRUE(fs::exists(folder_ / "new"));
  EXPECT_TRUE(
      tests::error_of([&] { desk_.answer({.word = StoreWord::kWrite, .file = 1, .bytes = "x"}); }));
}

// Whatever comes, it is answered or refused, and nothing but the run's folder changes.
TEST_F(HostileRequests, AtRandomDoNoHarm) {
  std::mt19937_64 random(7);
  const auto any = [&](std::initializer_list<const char*> names) {
    return std::string(*(names.begin() + static_cast<ptrdiff_t>(random() % names.size())));
  };
  const std::string outside = "../" + folder_.path().filename().string() + "-a";
  int answered = 0;
  for (int i = 0; i < 20'000; ++i) {
    const StoreRequest request{
        .word = static_cast<StoreWord>(random() % 10),
        .file = static_cast<int32_t>(random() % 6) - 1,
        .place = random() % 3 == 0 ? random() : random() % 3 * 2,
        .count = static_cast<uint32_t>(random() % 3),
        .path =
            random() % 2 == 0 ? "" : any({"read", "a", outside.c_str(), "b/c", "/etc/passwd", "."}),
        .bytes = any({"", "", "some"})};
    StoreRequest there = request;
    if (!there.path.empty() && there.path[0] != '/') there.path = folder_ / there.path;
    try {
      desk_.answer(there);
      ++answered;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kProtocol) << error.what();
    }
  }
  EXPECT_GT(answered, 200);
  EXPECT_FALSE(fs::exists(folder_ / outside));
}

// A pipe that is full holds up whoever writes it, as a disk that does not answer does.
TEST_F(RemoteStores, WhoEndsThemIsToldOfADiskThatDoesNotAnswer) {
  const std::string pipe = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const OpenFile reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const std::string bytes(kStorePiece, 'x');
  std::vector<std::string> told;
  const auto let_go = [&](const std::string& text) {
    told.push_back(text);
    std::string read(bytes.size(), 0);
    const auto end = after(10s);
    for (size_t left = bytes.size(); left > 0 && Clock::now() < end;)
      left -= static_cast<size_t>(std::max<ssize_t>(::read(reader.number(), read.data(), left), 0));
  };
  {
    StoreThread thread(
        rules_, kWorkers, [] {}, let_go, 100ms);
    thread.take(3, encode(StoreRequest{.word = StoreWord::kCreate, .path = pipe}));
    thread.take(3, encode(StoreRequest{.word = StoreWord::kWrite, .bytes = bytes}));
    poll_readable({reader.number()}, after(10s));
  }
  EXPECT_THAT(told, testing::ElementsAre(AllOf(
                        HasSubstr("waits for " + pipe + ", which worker 3 uses, for "),
                        HasSubstr("the disk there does not answer"), HasSubstr("end process"))));
  {
    const StoreThread idle(
        rules_, kWorkers, [] {}, let_go, 10s);
  }
  EXPECT_EQ(told.size(), 1u);
}

TEST_F(HostileRequests, BeyondTheWindowAreRefusedBeforeAnythingIsKept) {
  StoreThread thread(rules_, kWorkers, [] {});
  const std::string most = encode(
      StoreRequest{.word = StoreWord::kWrite, .file = 0, .bytes = std::string(kStorePiece, 'x')});
  const auto error = tests::error_of([&] {
    for (int i = 0; i < 1'000; ++i) thread.take(0, most);
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kProtocol);
  EXPECT_THAT(error->message(), HasSubstr("at once"));
  const std::string free = encode(StoreRequest{.word = StoreWord::kClose, .file = 0});
  EXPECT_TRUE(tests::error_of([&] {
    for (int i = 0; i < 1'000'000; ++i) thread.take(1, free);
  })) << "what costs nothing is counted";
  EXPECT_TRUE(tests::error_of([&] { thread.take(2, "garbage"); }));
}

}  // namespace
}  // namespace kerf::runtime
