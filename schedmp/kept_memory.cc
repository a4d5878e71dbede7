#include "schedmp/kept_memory.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"
#include "runtime/memory_folder_lock.h"
#include "schedmp/checkpoint_folder.h"
#include "schedmp/memory_journal.h"

namespace kerf::schedmp {

namespace {

using namespace std::chrono_literals;

constexpr auto kKeepEvery = 1s;
constexpr int kShare = 100;  // of the time, one part goes into them
constexpr auto kLatest = 64min;
constexpr auto kLong = 30s;

}  // namespace

KeptMemory::KeptMemory(std::chrono::seconds outlives, std::filesystem::path checkpoints, Tell tell,
                       int64_t steps)
    : folder_(runtime::MemoryFolder::make(outlives)),
      checkpoints_(std::move(checkpoints)),
      tell_(std::move(tell)),
      steps_(steps),
      next_at_(runtime::after(steps > 0 ? 0s : kKeepEvery)) {}

bool KeptMemory::is_due(int64_t steps) const {
  return steps >= std::max<int64_t>(steps_, 1) && runtime::Clock::now() >= next_at_;
}

void KeptMemory::wait() {
  if (found_ || told_ || runtime::Clock::now() < next_at_ + kLong) return;
  fail(
      "its rounds overlap, and it stops between them only behind as many as --save-every or "
      "--snapshot-rounds say, or as its schedule does");
}

void KeptMemory::begin() {
  begin_ = runtime::Clock::now();
  // Unless it is whole soon: a worker may die of it again and again.
  next_at_ = begin_ + std::exchange(later_, std::min<std::chrono::minutes>(2 * later_, kLatest));
}

bool KeptMemory::end_with(const std::filesystem::path& checkpoint) {
  for (const NumberedFolder& each : checkpoints_in(folder()))
    if (each.path != checkpoint) remove_checkpoint(each.path);
  later_ = 1min;
  const auto now = runtime::Clock::now();
  next_at_ = steps_ > 0
                 ? now
                 : now + std::max<runtime::Clock::duration>(kKeepEvery, kShare * (now - begin_));
  try {
    if (!found_) keep_memory_journal(checkpoints_, {folder().string(), this_boot()});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    fail(error.what());
    return false;
  }
  found_ = true;
  return true;
}

void KeptMemory::fail(const std::string& why) {
  if (std::exchange(told_, true) || !tell_) return;
  tell_(kerf::format("what workers hold is not kept in memory, and the run goes on: {}", why));
}

void KeptMemory::end() {
  folder_.remove();
  if (found_) remove_memory_journal(checkpoints_);
}

void KeptMemory::end_if_saved(const std::filesystem::path& disk) {
  int64_t kept = -1;
  for (const NumberedFolder& each : checkpoints_in(folder()))
    if (has_manifest(each.path)) kept = std::max(kept, each.number);
  // One that is damaged, which an earlier run may have left, saves nothing.
  const auto saves = [&](const NumberedFolder& each) {
    return each.number >= kept && faults_of(each.path).empty();
  };
  if (kept < 0 || std::ranges::any_of(checkpoints_in(disk), saves)) end();
}

void LeftMemory::remove() {
  const std::filesystem::path was = folder();
  folder_.remove();
  try {
    const auto journal = find_memory_journal(checkpoints_);
    if (journal && journal->folder == was) remove_memory_journal(checkpoints_);
  } catch (const Error&) {
    return;  // what cannot be read says nothing of it
  }
}

std::shared_ptr<LeftMemory> left_memory(const std::filesystem::path& checkpoints,
                                        const KeptMemory::Tell& tell) {
  try {
    const auto journal = find_memory_journal(checkpoints);
    if (!journal) return nullptr;
    return std::make_shared<LeftMemory>(runtime::MemoryFolder::claim(journal->folder), checkpoints);
  } catch (const Error& error) {
    if (tell)
      tell(kerf::format("nothing of what its workers held is gone on from in memory: {}",
                        error.what()));
    return nullptr;
  }
}

void forget_gone_memory(const std::filesystem::path& checkpoints) {
  std::error_code unknown;
  try {
    const auto journal = find_memory_journal(checkpoints);
    if (journal && std::filesystem::exists(journal->folder, unknown)) return;
  } catch (const Error&) {  // nobody can go on by it
  }
  remove_memory_journal(checkpoints);
}

bool has_left_memory(const std::filesystem::path& checkpoints) {
  try {
    const auto journal = find_memory_journal(checkpoints);
    return journal && runtime::names_memory_folder(journal->folder) &&
           has_checkpoints(journal->folder);
  } catch (const Error&) {
    return false;  // who goes on by it is told why
  }
}

}  // namespace kerf::schedmp
