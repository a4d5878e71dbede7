// A run's folder, whole: whatever its plan names lies in it, so it can be copied or moved and used
// from there. All of it is of one run: a run that fails before its weights, plan, schedule and
// picture are written leaves the folder as it was. Then files are only removed and renamed; a run
// that fails in that has taken the earlier report away and writes none.
//
//   plan.json  plan.svg  schedule.txt  trace.json  profile.json  weights.safetensors  run.json
//   report.html
//
// schedule.txt is there where the schedule came from a file; checkpoints/ (save_flags.h) where some
// were asked for.
#pragma once

#include <filesystem>
#include <string>

#include "apps/kerf/planned.h"
#include "apps/profile_file.h"
#include "schedmp/safetensors.h"
#include "schedmp/schedule.h"

namespace kerf::apps {

class RunFolder {
 public:
  // `picture`: where the picture goes instead; empty: into the folder.
  explicit RunFolder(std::filesystem::path path, std::string picture = {});

  // Before the run. Throws Error{kUsage} where it cannot become a folder. What killed runs had
  // begun to write there goes. A picture that goes elsewhere is drawn at once, so that a wrong path
  // is told now.
  void make(const Planned& planned) const;
  // Once a run has ended well, and before its trace and, last of all, its whole report are written:
  // takes away what an earlier run left and this one does not replace, its report first, so that no
  // report ever stands beside files of another run. Keeps plan, picture, the weights, which are
  // written and not committed, and a schedule from a file, which the plan names relative to the
  // folder from now on. Throws Error{kUnavailable} that names what cannot be written or replaced.
  void keep(Planned& planned, const schedmp::Schedule& schedule,
            schedmp::SafetensorsWriter& weights) const;

  std::filesystem::path trace() const { return path_ / "trace.json"; }
  std::filesystem::path profile() const { return path_ / kProfileFile; }
  std::filesystem::path weights() const { return path_ / "weights.safetensors"; }
  std::filesystem::path report() const { return path_ / "run.json"; }
  std::filesystem::path page() const { return path_ / "report.html"; }
  const std::filesystem::path& path() const { return path_; }

  // One line for each file that is there.
  std::string text() const;

 private:
  std::filesystem::path picture() const;
  void draw(const Planned& planned) const;
  void forget_earlier(const std::filesystem::path& schedule) const;

  const std::filesystem::path path_;
  const std::string picture_;
};

}  // namespace kerf::apps
