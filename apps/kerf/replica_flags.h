// The flags of replicas: several plans that train at once, and how they share weights.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "apps/kerf/plan_flags.h"
#include "schedmp/training/replicas.h"

namespace kerf::apps {

// As given.
struct ReplicaFlags {
  int replicas = 1;
  std::optional<std::string> consistency;
  std::optional<int> server_groups;
  std::optional<int64_t> push_every;
  std::optional<int64_t> fetch_every;

  // What a run does. Replicas that are synchronous in every step are a cut, which the plan's flags
  // come to ask for: of a batch as large as all of theirs, over the workers of all; but not those
  // of L-BFGS, which share portions. Throws Error{kUsage} that names the flag at fault.
  schedmp::ReplicaOptions applied_to(PlanFlags& plan, const std::string& plan_file,
                                     bool by_lbfgs) const;
};

void add_replica_flags(CLI::App& command, ReplicaFlags& flags);

}  // namespace kerf::apps
