// The store: one suite for a worker of the scheduler's host and one of another, and what a worker
// of another may not do.
#include "runtime/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "runtime/file.h"
#include "runtime/kept_file.h"
#include "runtime/remote_store.h"
#include "runtime/store_thread.h"
#include "runtime/wire.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int kWorkers = 8;

// A worker's store and the scheduler's thread, with nothing but queues between them.
class Wire {
 public:
  explicit Wire(const StoreRules& rules)
      : remote_([this](ControlMessage message) { send(message); }, store_window(kWorkers),
                activity_),
        thread_(rules, kWorkers, [this] { hand_over(); }) {}

  RemoteStore& store() { return remote_; }
  int64_t window() const { return thread_.window(); }
  // The most that was asked for without an answer.
  int64_t most_unanswered() {
    const std::lock_guard lock(mutex_);
    return most_;
  }
  std::optional<Error> breach() {
    const std::lock_guard lock(mutex_);
    return breach_;
  }
  // Bytes, of each request to read.
  std::vector<uint32_t> asked_to_read() {
    const std::lock_guard lock(mutex_);
    return asked_to_read_;
  }

 private:
  void send(const ControlMessage& message) {
    EXPECT_EQ(message.type, ControlType::kStore);
    EXPECT_LE(message.payload.size(), kMaxControlMessage);
    const std::lock_guard lock(mutex_);
    const auto request = decode<StoreRequest>(message.payload);
    unanswered_ += cost_of(request);
    most_ = std::max(most_, unanswered_);
    if (request.word == StoreWord::kRead) asked_to_read_.push_back(request.count);
    thread_.take(0, message.payload);
  }

  void hand_over() {
    const std::lock_guard lock(mutex_);
    for (const StoreThread::Said& said : thread_.answers()) {
      unanswered_ -= said.cost;
      if (said.breach) {
        breach_ = said.breach;
        remote_.interrupt();
      } else {
        remote_.deliver(encode(said.answer));
      }
    }
  }

  Activity activity_;
  std::mutex mutex_;
  int64_t unanswered_ = 0;
  int64_t most_ = 0;
  std::vector<uint32_t> asked_to_read_;
  std::optional<Error> breach_;
  RemoteStore remote_;
  StoreThread thread_;  // uses the others
};

std::string some_bytes(size_t count) {
  std::mt19937_64 random(count);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::string read(ReadableFile& file, uint64_t first, size_t count) {
  std::string bytes(count, '\0');
  file.read(first, std::as_writable_bytes(std::span(bytes)), ErrorCode::kUnavailable);
  return bytes;
}

std::string whole(ReadableFile& file) { return read(file, 0, file.bytes()); }

class StoreFolder : public testing::Test {
 protected:
  StoreFolder() { rules_.allow(folder_.path(), StoreAccess::kWrite); }

  std::string text_of(const fs::path& path) const { return read_file(path); }
  size_t count_files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  const tests::TemporaryFolder folder_;
  StoreRules rules_;
};

// Whether the worker is of another host.
class StoreConformance : public StoreFolder, public testing::WithParamInterface<bool> {
 protected:
  StoreConformance() {
    if (GetParam()) wire_.emplace(rules_);
  }
  Store& store() { return GetParam() ? static_cast<Store&>(wire_->store()) : local_; }
  // Whatever was asked for before has been done.
  void settle() { EXPECT_FALSE(store().find(folder_ / "nothing of that name")); }

  LocalStore local_;
  std::optional<Wire> wire_;
};

INSTANTIATE_TEST_SUITE_P(Of, StoreConformance, testing::Bool(), [](const auto& instance) {
  return instance.param ? "AnotherHost" : "TheSchedulersHost";
});

TEST_P(StoreConformance, WhatIsWrittenIsReadAtAnyPlace) {
  for (const size_t size : {size_t{0}, size_t{1}, kStorePiece - 1, kStorePiece, kStorePiece + 1,
                            11 * kStorePiece + 5}) {
    const std::string bytes = some_bytes(size);
    const auto file = store().create(folder_ / "file");
    std::mt19937_64 random(size);
    for (size_t at = 0; at < size;) {
      const size_t count = std::min<size_t>(random() % (2 * kStorePiece), size - at);
      file->write(std::string_view(bytes).substr(at, count));
      at += count;
    }
    file->commit();
    EXPECT_TRUE(text_of(folder_ / "file") == bytes) << size;
    const auto there = store().open(folder_ / "file");
    EXPECT_EQ(there->bytes(), size);
    EXPECT_EQ(there->origin(), (folder_ / "file").string());
    EXPECT_TRUE(whole(*there) == bytes) << size;
    for (int i = 0; i < 50 && size > 0; ++i) {
      const size_t first = random() % size;
      const size_t count = random() % (size - first + 1);
      ASSERT_TRUE(read(*there, first, count) == bytes.substr(first, count)) << first;
    }
  }
}

TEST_P(StoreConformance, IsReadOnInStepsOfAnySize) {
  const std::string bytes = some_bytes(9 * kStorePiece + 7);
  write_file_atomic(folder_ / "file", bytes);
  const auto file = store().open(folder_ / "file");
  std::mt19937_64 random(3);
  std::string found;
  while (found.size() < bytes.size()) {
    const size_t most = random() % 3 == 0 ? 3 * kStorePiece : 1000;
    found += read(*file, found.size(), std::min(random() % most, bytes.size() - found.size()));
  }
  EXPECT_TRUE(found == bytes);
}

TEST_P(StoreConformance, AFileIsWholeOrNothing) {
  write_file_atomic(folder_ / "old", "before");
  for (const char* name : {"old", "new"}) {
    const auto file = store().create(folder_ / name);
    file->write(some_bytes(3 * kStorePiece));
    file->settle();
    EXPECT_EQ(count_files(), 2u) << "a temporary one beside it";
  }
  settle();
  EXPECT_EQ(count_files(), 1u);
  EXPECT_EQ(text_of(folder_ / "old"), "before");
  const auto file = store().create(folder_ / "old");
  file->write("behind");
  EXPECT_EQ(text_of(folder_ / "old"), "before");
  file->commit();
  EXPECT_EQ(text_of(folder_ / "old"), "behind");
}

TEST_P(StoreConformance, StaysTheFileThatItWasThoughAnotherGetsItsName) {
  write_file_atomic(folder_ / "file", "before");
  const auto file = store().open(folder_ / "file");
  write_file_atomic(folder_ / "file", "behind it");
  EXPECT_EQ(whole(*file), "before");
}

TEST_P(StoreConformance, ReadingPastTheEndIsAnErrorOfTheCallersKind) {
  write_file_atomic(folder_ / "file", "12345");
  const auto file = store().open(folder_ / "file");
  for (const auto& [first, count] : {std::pair{0, 6}, {5, 1}, {9, 1}}) {
    const auto error = tests::error_of([&, first = first, count = count] {
      read(*file, static_cast<uint64_t>(first), static_cast<size_t>(count));
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
    EXPECT_EQ(error->where(), (folder_ / "file").string());
    EXPECT_EQ(error->message(),
              kerf::format("it has no byte {}; it had 5 when it was opened", std::max(first, 5)));
  }
  EXPECT_EQ(read(*file, 3, 2), "45");
  fs::resize_file(folder_ / "file", 4);
  EXPECT_EQ(tests::error_of([&] { read(*file, 1, 4); }).value().code(), ErrorCode::kUnavailable);
}

TEST_P(StoreConformance, WhatCannotBeOpenedIsToldByItsName) {
  fs::create_directory(folder_ / "folder");
  EXPECT_FALSE(store().find(folder_ / "none"));
  for (const char* name : {"none", "folder"}) {
    const auto error = tests::error_of([&] { store().open(folder_ / name); });
    ASSERT_TRUE(error) << name;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_EQ(error->where(), (folder_ / name).string());
  }
  const auto error = tests::error_of([&] { store().create(folder_ / "none" / "file"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), HasSubstr((folder_ / "none" / "file").string()));
}

TEST_P(StoreConformance, AFullDiskIsToldBeforeTheFileIsThere) {
  rules_.allow("/dev", StoreAccess::kWrite);
  const auto file = store().create("/dev/full");
  const auto error = tests::error_of([&] {
    for (int i = 0; i < 1000; ++i) file->write(std::string(kStorePiece, 'x'));
    file->commit();
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
}

TEST_P(StoreConformance, AFileGrowsBehindWhatIsKeptOfIt) {
  const fs::path path = folder_ / "file";
  struct Growth {
    uint64_t kept;
    const char* text;
    const char* whole;
  };
  for (const auto& [kept, text, whole] : std::vector<Growth>{
           {0, "one two", "one two"}, {3, " three", "one three"}, {9, "", "one three"}}) {
    const auto file = store().extend(path, kept);
    file->write(text);
    file->flush();
    EXPECT_EQ(text_of(path), whole);
    file->commit();
  }
  const auto error = tests::error_of([&] { store().extend(path, 10); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_EQ(text_of(path), "one three");
}

TEST_P(StoreConformance, AFileInMemoryIsWrittenAgainAndAgain) {
  const KeptFile kept("a test");
  rules_.keep(0, kept.path());
  for (const size_t size : {5 * kStorePiece, size_t{7}, size_t{0}}) {
    const std::string bytes = some_bytes(size);
    const auto file = store().create(kept.path());
    file->write(bytes);
    file->commit();
    EXPECT_TRUE(whole(*store().open(kept.path())) == bytes);
  }
}

TEST_P(StoreConformance, ManyFilesAreOpenAtATimeAndTheirNumbersComeAgain) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<WritableFile>> files;
    for (int i = 0; i < 200; ++i) {
      files.push_back(store().create(folder_ / std::to_string(i)));
      files.back()->write(std::to_string(i));
    }
    for (size_t i = 0; i < files.size(); i += 50) files[i]->commit();
  }
  settle();
  EXPECT_EQ(text_of(folder_ / "150"), "150");
  EXPECT_EQ(count_files(), 4u);
}

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
  int answered = 0;
  for (int i = 0; i < 20'000; ++i) {
    const StoreRequest request{
        .word = static_cast<StoreWord>(random() % 10),
        .file = static_cast<int32_t>(random() % 6) - 1,
        .place = random() % 3 == 0 ? random() : random() % 3 * 2,
        .count = static_cast<uint32_t>(random() % 3),
        .path = random() % 2 == 0 ? "" : any({"read", "a", "../a", "b/c", "/etc/passwd", "."}),
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
  EXPECT_FALSE(fs::exists(folder_.path().parent_path() / "a"));
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
