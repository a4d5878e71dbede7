// The store: one suite for a worker of the scheduler's host and one of another.

#include "runtime/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <random>

#include "runtime/kept_file.h"
#include "tests/runtime/store_wire.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

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

// Its bytes would be the memory that the kernel ends somebody for; those of a file on disk are not.
TEST(LocalStores, KeepNothingInMemoryThatHasNoRoom) {
  const KeptFile kept("a test");
  const tests::TemporaryFolder disk;
  constexpr int64_t kMuch = int64_t{1} << 60;
  for (const int64_t leaves : {int64_t{0}, kMuch}) {
    LocalStore local(leaves);
    const auto refusal = [&](const std::unique_ptr<WritableFile>& file) {
      const auto error = tests::error_of([&] { file->write("what is held"); });
      return error ? error->message() : std::string();
    };
    testing::Matcher<std::string> expected = testing::IsEmpty();
    if (leaves > 0)
      expected = AllOf(HasSubstr("no room for what its workers keep"),
                       HasSubstr("1 EiB are left to others"), HasSubstr("are missing"));
    EXPECT_THAT(refusal(local.create(kept.path())), expected);
    EXPECT_THAT(refusal(local.extend(kept.path(), 0)), expected);
    EXPECT_THAT(refusal(local.create(disk.path() / "file")), testing::IsEmpty());
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

}  // namespace
}  // namespace kerf::runtime
