// What one process of a run tells the next that goes on under another plan: kerf train --rebalance,
// and --shrink behind that. Files in a folder of the run, written while the run may still stay as
// it is (by --shrink, once workers are lost: what fails then ends the run, and says how to go on),
// and flags that name them (next_process.h).
//
// The file of earlier changes marks them as a run's: it is written first and removed last. Without
// it files of these names are somebody's, and stay as they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/next_process.h"
#include "apps/report/run_record.h"
#include "partitioner/capacities.h"
#include "partitioner/model.h"
#include "runtime/json.h"

namespace kerf::apps {

// What a process that goes on knows of those before it.
struct Rebalanced {
  std::vector<RunRecord::Rebalance> all;  // of the run; the last is the one that led to it
  int64_t left_ns = 0;                    // when that was decided, by the clock of this host
};
// Throws Error{kUsage} that names the file.
Rebalanced read_rebalanced(const std::string& file);

// The flags of a process that goes on by this `profile` on these devices. The files are there then,
// and could be read; `model` is what the profile is of. Throws Error{kUnavailable} or Error{kUsage}
// that names the file which could not.
NextFlags flags_to_go_on(const std::filesystem::path& folder, const Rebalanced& rebalanced,
                         const Json& profile, const partitioner::Capacities& devices,
                         const partitioner::Model& model);
// The same of a run that goes on with so many of its workers, as if all of them were alike: who is
// not is measured anew.
NextFlags flags_of_fewer(const std::filesystem::path& folder, int workers,
                         const Rebalanced& rebalanced);

// Of a run that is over; what else is in the folder stays there.
void remove_rebalance_files(const std::filesystem::path& folder);

// A file there that a change would write over, and no run wrote; empty: there is none.
std::filesystem::path strange_file(const std::filesystem::path& folder);
// Whether that file, or folder, which need not be there, is in this one or is it.
bool lies_within(const std::string& file, const std::filesystem::path& folder);

}  // namespace kerf::apps
