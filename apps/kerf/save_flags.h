// The flags by which a training keeps checkpoints, and goes on from those of another run.
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "schedmp/memory_journal.h"
#include "schedmp/snapshots.h"

namespace kerf::apps {

inline constexpr double kSaveSeconds = 600;
inline constexpr double kWorthSeconds = 60;  // where nobody asked for checkpoints
inline constexpr int64_t kKeptCheckpoints = 2;

// Where the checkpoints of a run are that left its files in `folder`; a folder of checkpoints is
// its own.
std::filesystem::path checkpoints_of(const std::filesystem::path& folder);

// Steps or seconds; neither: none.
struct SaveEvery {
  int64_t steps = 0;
  double seconds = 0;
};
// "500" steps, "90s", "10m", "2h". Throws Error{kUsage} that shows the forms.
SaveEvery parse_save_every(const std::string& text);

// The run's own folder of checkpoints, and nobody else's as long as this lives; behind it none that
// is empty.
class CheckpointFolder {
 public:
  CheckpointFolder() = default;  // none
  // `stay`: after a run that ended well.
  CheckpointFolder(std::filesystem::path path, std::shared_ptr<const schedmp::FolderLock> lock,
                   bool stay)
      : path_(std::move(path)), lock_(std::move(lock)), stay_(stay) {}
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;
  ~CheckpointFolder() {
    lock_.reset();
    if (!path_.empty()) ::rmdir(path_.c_str());  // where there is nothing in it
  }

  const std::filesystem::path& path() const { return path_; }
  const std::shared_ptr<const schedmp::FolderLock>& lock() const { return lock_; }
  bool stays() const { return stay_; }
  // The run's results are all written.
  void end_well() const {
    if (path_.empty()) return;
    if (!stay_) schedmp::prune(path_, 0);
    schedmp::remove_memory_journal(path_);
  }

 private:
  const std::filesystem::path path_;
  std::shared_ptr<const schedmp::FolderLock> lock_;
  const bool stay_ = true;
};

struct SaveFlags {
  std::string every;  // empty: not given
  int64_t keep = kKeptCheckpoints;
  std::string resume;
  // Those that are there are of the same run, which went on in another process, and go with it.
  bool go_at_end = false;
  std::optional<int> keep_workers;  // seconds

  // Before anything is read. Throws Error{kUsage} that names the flag.
  void check() const;
  SaveEvery when() const;
  // Where a run's checkpoints go that leaves its files in `out`; none: none are written. Where
  // nobody asked for any and those of another run are there, or are being written, they stay, and
  // the person is told. Throws Error{kUsage} where some are asked for and another run writes there.
  CheckpointFolder folder(const std::filesystem::path& out) const;
  // What the run that it goes on with left in memory; null: nothing. Claimed from now on.
  std::shared_ptr<schedmp::LeftMemory> left() const;
  // What is kept in memory, every `buddy_every` steps (0: about once a second), is there from now
  // on, and is ended by the caller.
  schedmp::SnapshotOptions options(const CheckpointFolder& folder, int64_t buddy_every) const;
};

void add_save_flags(CLI::App& command, SaveFlags& flags);

}  // namespace kerf::apps
