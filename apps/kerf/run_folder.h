// A run's folder, whole: whatever its plan names lies in it, so it can be copied or moved and used
// from there.
//
//   plan.json  plan.svg  schedule.txt  trace.json  weights.safetensors  run.json
//
// schedule.txt is there where the schedule came from a file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/kerf/plan_flags.h"

namespace kerf::apps {

class RunFolder {
 public:
  // `picture`: where the picture goes instead; empty: into the folder.
  explicit RunFolder(std::filesystem::path path, std::string picture = {});

  // Throws Error{kUsage} where it cannot become a folder.
  void make() const;
  // Keeps plan, picture and a schedule from a file, which the plan names relative to the folder from
  // now on.
  void keep(Planned& planned, const schedmp::Schedule& schedule) const;

  std::filesystem::path trace() const { return path_ / "trace.json"; }
  std::filesystem::path weights() const { return path_ / "weights.safetensors"; }
  std::filesystem::path report() const { return path_ / "run.json"; }
  const std::filesystem::path& path() const { return path_; }

  // One line for each file that is there.
  std::string text() const;

 private:
  std::filesystem::path picture() const;

  const std::filesystem::path path_;
  const std::string picture_;
};

// Where workers leave their shares of the weights: FOLDER/.shares-PID-XXXXXX. Gone when the run is
// over, however it ends; after a SIGKILL, when the next one begins.
class ShareFolder {
 public:
  explicit ShareFolder(const std::filesystem::path& folder);
  ShareFolder(const ShareFolder&) = delete;
  ShareFolder& operator=(const ShareFolder&) = delete;
  ~ShareFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace kerf::apps
