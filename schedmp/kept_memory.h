// What a run's workers hold, in memory, for who goes on behind a scheduler that was killed:
// checkpoints as on disk (checkpoint_folder.h), in a folder that outlives the scheduler for some
// seconds (runtime/memory_folder.h). Which folder that is stands in a journal beside the run's
// checkpoints on disk.
//
// They are taken about once a second, for no more than a hundredth of the time, or every so many
// steps, whatever they cost. Belongs to the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "runtime/memory_folder.h"
#include "runtime/time.h"

namespace kerf::schedmp {

class KeptMemory {
 public:
  using Tell = std::function<void(const std::string&)>;

  // `checkpoints`: the run's folder of them on disk, which nobody else writes to. `steps`: from one
  // to the next; 0: by time. Throws Error{kUnavailable} where this host keeps no files in memory.
  KeptMemory(std::chrono::seconds outlives, std::filesystem::path checkpoints, Tell tell,
             int64_t steps = 0);
  // Without end(), the last that was taken is there for some seconds more.
  ~KeptMemory() = default;

  const std::filesystem::path& folder() const { return folder_.path(); }

  // So many steps behind the last, in memory or on disk.
  bool is_due(int64_t steps) const;
  // One is due, and the run does not stop where it would be taken. Tells so, once, where it never
  // has for long.
  void wait();
  // One is being taken. Behind one that comes to nothing, as a worker is lost meanwhile, perhaps
  // for want of memory, the next comes much later.
  void begin();
  // It is there; the next is due after a while. Whether whoever goes on with the run finds it.
  bool end_with(const std::filesystem::path& checkpoint);
  // It is not. Tells why, of the first.
  void fail(const std::string& why);
  // The next is due then at the earliest.
  runtime::Clock::time_point next_at() const { return next_at_; }

  // The run is over in order: nothing of this is left.
  void end();
  // It was asked to end: likewise, where what it saved on disk is as new as this.
  void end_if_saved(const std::filesystem::path& disk);

 private:
  runtime::MemoryFolder folder_;
  const std::filesystem::path checkpoints_;
  const Tell tell_;
  const int64_t steps_;
  runtime::Clock::time_point begin_;
  runtime::Clock::time_point next_at_;
  std::chrono::minutes later_{1};  // to the next, behind one in vain
  bool told_ = false;              // of one that failed
  bool found_ = false;             // the journal is written
};

// What a run left in memory whose scheduler was killed; nobody else's as long as this lives.
class LeftMemory {
 public:
  // Of the run that has its checkpoints on disk there.
  LeftMemory(runtime::MemoryFolder folder, std::filesystem::path checkpoints)
      : folder_(std::move(folder)), checkpoints_(std::move(checkpoints)) {}

  const std::filesystem::path& folder() const { return folder_.path(); }
  // There is something newer: it goes, and the journal that says where it was. Once.
  void remove();

 private:
  runtime::MemoryFolder folder_;
  const std::filesystem::path checkpoints_;
};
// By the journal in that folder of checkpoints. Null: there is nothing, which is told where there
// was.
std::shared_ptr<LeftMemory> left_memory(const std::filesystem::path& checkpoints,
                                        const KeptMemory::Tell& tell);
// Removes the journal in that folder of checkpoints, of the caller's run alone, where what it names
// is not there any more.
void forget_gone_memory(const std::filesystem::path& checkpoints);
// Whether there is a checkpoint in such, whoever has it.
bool has_left_memory(const std::filesystem::path& checkpoints);

}  // namespace kerf::schedmp
