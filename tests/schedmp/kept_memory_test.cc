// What a run keeps in memory is found by its journal, and by nothing else.
#include "schedmp/kept_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/warden.h"
#include "schedmp/checkpoint_folder.h"
#include "schedmp/memory_journal.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class KeptMemoryTest : public testing::Test {
 protected:
  KeptMemory kept() { return {60s, folder_.path(), tell_}; }
  // One of nothing but a manifest.
  static fs::path checkpoint(const KeptMemory& memory, int64_t number) {
    fs::path path = checkpoint_path(memory.folder(), number);
    fs::create_directory(path);
    write_manifest(
        path, {.program = "walk", .number = number, .round = 1, .workers = 1, .parts = {{{}}}});
    return path;
  }
  std::shared_ptr<LeftMemory> left() { return left_memory(folder_.path(), tell_); }

  tests::TemporaryFolder folder_;
  std::vector<std::string> told_;
  KeptMemory::Tell tell_ = [this](const std::string& what) { told_.push_back(what); };
};

TEST_F(KeptMemoryTest, OneOfThemIsThere) {
  KeptMemory memory = kept();
  for (const int64_t number : {3, 7}) {
    memory.begin();
    EXPECT_TRUE(memory.end_with(checkpoint(memory, number)));
  }
  EXPECT_FALSE(fs::exists(checkpoint_path(memory.folder(), 3)));
  EXPECT_TRUE(has_manifest(checkpoint_path(memory.folder(), 7)));
  EXPECT_TRUE(has_left_memory(folder_.path()));
  memory.end();
  EXPECT_FALSE(fs::exists(folder_ / "memory.json"));
  EXPECT_FALSE(has_left_memory(folder_.path()));
  EXPECT_FALSE(left());
  EXPECT_THAT(told_, ElementsAre());
}

TEST_F(KeptMemoryTest, WhoGoesOnHasItAlone) {
  auto memory = std::make_unique<KeptMemory>(60s, folder_.path(), tell_);
  memory->begin();
  memory->end_with(checkpoint(*memory, 7));
  EXPECT_FALSE(left());
  EXPECT_THAT(told_, ElementsAre(HasSubstr("another run has it now")));
  const fs::path path = memory->folder();
  memory.reset();  // as one that was killed
  auto mine = left();
  ASSERT_TRUE(mine);
  EXPECT_EQ(mine->folder(), path);
  mine->remove();
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(folder_ / "memory.json"));
}

// Whoever goes on with a run that went on keeps its own.
TEST_F(KeptMemoryTest, TheJournalOfTheNextStays) {
  auto first = std::make_unique<KeptMemory>(60s, folder_.path(), tell_);
  first->begin();
  first->end_with(checkpoint(*first, 7));
  first.reset();
  auto left_by_first = left();
  ASSERT_TRUE(left_by_first);
  KeptMemory second = kept();
  second.begin();
  second.end_with(checkpoint(second, 9));
  left_by_first->remove();
  EXPECT_EQ(find_memory_journal(folder_.path())->folder, second.folder().string());
  second.end();
}

TEST_F(KeptMemoryTest, AJournalOfWhatIsThereIsNotForgotten) {
  auto memory = std::make_unique<KeptMemory>(60s, folder_.path(), tell_);
  memory->begin();
  memory->end_with(checkpoint(*memory, 7));
  forget_gone_memory(folder_.path());
  EXPECT_TRUE(has_left_memory(folder_.path()));
  fs::remove_all(memory->folder());
  forget_gone_memory(folder_.path());
  EXPECT_FALSE(fs::exists(folder_ / "memory.json"));
  runtime::write_file_atomic(folder_ / "memory.json", "none");
  forget_gone_memory(folder_.path());
  EXPECT_FALSE(fs::exists(folder_ / "memory.json"));
  forget_gone_memory(folder_.path());  // there is none
  memory->end();
}

TEST_F(KeptMemoryTest, IsDueByTimeOrBehindSoManySteps) {
  KeptMemory by_time = kept();
  EXPECT_FALSE(by_time.is_due(1'000'000)) << "within a second";
  by_time.end();
  KeptMemory memory(60s, folder_.path(), tell_, 5);
  EXPECT_FALSE(memory.is_due(4));
  EXPECT_TRUE(memory.is_due(5));
  memory.begin();
  EXPECT_FALSE(memory.is_due(5)) << "behind one in vain";
  memory.end_with(checkpoint(memory, 5));
  EXPECT_FALSE(memory.is_due(4));
  EXPECT_TRUE(memory.is_due(5));
  memory.end();
}

TEST_F(KeptMemoryTest, ComesMuchLaterBehindOneInVain) {
  KeptMemory memory = kept();
  memory.begin();
  memory.fail("no room");
  memory.fail("no room");
  EXPECT_THAT(told_, ElementsAre(HasSubstr("the run goes on: no room")));
  EXPECT_GT(memory.next_at(), runtime::after(50s));
  memory.begin();
  memory.end_with(checkpoint(memory, 7));
  EXPECT_LT(memory.next_at(), runtime::after(50s));
  memory.end();
}

TEST_F(KeptMemoryTest, WithoutAJournalItIsNotThere) {
  fs::create_directory(folder_ / "memory.json");
  KeptMemory memory = kept();
  memory.begin();
  EXPECT_FALSE(memory.end_with(checkpoint(memory, 7)));
  EXPECT_THAT(told_, ElementsAre(HasSubstr("memory.json")));
  fs::remove(folder_ / "memory.json");
  memory.begin();
  EXPECT_TRUE(memory.end_with(checkpoint(memory, 8)));
  memory.end();
}

TEST_F(KeptMemoryTest, AJournalThatIsNoneIsTold) {
  const MemoryJournal journal{"/dev/shm/kerf-kept-0123456789abcdef0123456789abcdef", this_boot()};
  const std::string text = write_memory_journal(journal);
  EXPECT_EQ(parse_memory_journal(text, "j"), journal);
  std::string changed = text;
  changed[text.find("kerf-kept-0") + 10] = '1';
  for (const std::string& wrong : {changed, text + "\n", std::string(), std::string("{}")}) {
    runtime::write_file_atomic(folder_ / "memory.json", wrong);
    told_.clear();
    EXPECT_FALSE(left());
    EXPECT_THAT(told_, ElementsAre(HasSubstr("memory.json"))) << wrong;
    EXPECT_FALSE(has_left_memory(folder_.path()));
  }
}

// Where it leads elsewhere is told; of another boot it says nothing.
TEST_F(KeptMemoryTest, OfAnotherBootMeansNothing) {
  keep_memory_journal(folder_.path(), {folder_.path().string(), this_boot()});
  EXPECT_FALSE(left());
  EXPECT_THAT(told_, ElementsAre(HasSubstr("no folder that a run of Kerf keeps")));
  EXPECT_FALSE(has_left_memory(folder_.path()));
  told_.clear();
  keep_memory_journal(folder_.path(), {folder_.path().string(), "another"});
  EXPECT_FALSE(left());
  EXPECT_THAT(told_, ElementsAre());
}

}  // namespace
}  // namespace kerf::schedmp

int main(int argc, char** argv) {
  if (const auto code = kerf::runtime::watch_if_warden(argc, argv)) return *code;
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
