// The flags by which a training keeps checkpoints, and goes on from those of another run.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "schedmp/snapshots.h"

namespace kerf::apps {

inline constexpr double kSaveSeconds = 600;
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

struct SaveFlags {
  std::string every;  // empty: not given
  int64_t keep = kKeptCheckpoints;
  std::string resume;

  // Before anything is read. Throws Error{kUsage} that names the flag.
  void check() const;
  SaveEvery when() const;
  // Where a run's checkpoints go that leaves its files in `out`; empty: none are written. Where
  // nobody asked for any and those of another run are there, they stay, and the person is told.
  std::filesystem::path folder(const std::filesystem::path& out) const;
  // Of a run whose halves keep their state or not.
  schedmp::SnapshotOptions options(const std::filesystem::path& folder, bool keeps_state) const;
};

void add_save_flags(CLI::App& command, SaveFlags& flags);

// As long as it lives, the run's own folder of checkpoints is not an empty one behind it.
class CheckpointFolder {
 public:
  // `stay`: after a run that ended well.
  CheckpointFolder(std::filesystem::path path, bool stay) : path_(std::move(path)), stay_(stay) {}
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;
  ~CheckpointFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);  // where there is nothing in it
  }
  // The run's results are all written.
  void end_well() const {
    if (!stay_ && !path_.empty()) schedmp::prune(path_, 0);
  }

 private:
  const std::filesystem::path path_;
  const bool stay_;
};

}  // namespace kerf::apps
