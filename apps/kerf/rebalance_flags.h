// The flags of a run that plans anew where its workers turn out to be slower: kerf train
// --rebalance.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/kerf/plan_flags.h"
#include "apps/kerf/replica_flags.h"
#include "apps/kerf/save_flags.h"
#include "apps/main/crew_flags.h"

namespace kerf::apps {

struct RebalanceFlags {
  bool asked = false;
  std::string known;             // of a process that goes on (rebalance_files.h): a file
  std::optional<int> returning;  // likewise (next_process.h): who may come back
  bool goes_on = false;          // the mark of such

  // What the run is asked beside it, before anything is read.
  struct Run {
    const PlanFlags& plan;
    const std::string& plan_file;
    const CrewFlags& crew;
    const ReplicaFlags& replicas;
    const SaveFlags& saves;
    int64_t trace_steps = 0;
  };
  // Throws Error{kUsage} at the flag with which it could not be.
  void check(const Run& run) const;
  // Of any run that writes into `folder` what the next process reads, or removes it: neither is
  // somebody's. Throws Error{kUsage} at the flag.
  void check_folder(const PlanFlags& plan, const std::filesystem::path& folder) const;
};

void add_rebalance_flags(CLI::App& command, RebalanceFlags& flags);

}  // namespace kerf::apps
