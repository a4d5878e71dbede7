// How the workers of a run are started and reached: the flags of train, eval and run.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "apps/kerf/interrupts.h"
#include "partitioner/plan.h"
#include "runtime/crew.h"

namespace kerf::apps {

using partitioner::kMostWorkers;
inline constexpr int kMostThreads = 1024;  // per worker

struct CrewFlags {
  std::optional<std::string> transport;
  std::optional<std::string> device;  // of local workers
  std::string listen;
  std::optional<int> threads;  // per worker
};

inline constexpr const char* kDefaultTransport = "shm";
inline constexpr const char* kDefaultDevice = "cpu";

void add_crew_flags(CLI::App& command, CrewFlags& flags);
// For what computes with as many threads as it is told.
void add_threads_flag(CLI::App& command, CrewFlags& flags);

// All workers are on this host. Throws Error{kInfeasible} if together they need more bytes than it
// has; `way_out` says what to change.
void check_host_memory(const CrewFlags& flags, double bytes, const std::string& way_out);

// Starts processes, so it comes before anything that has ZeroMQ in it; with --listen it waits for
// workers and says so on the standard error output. A worker may compute for ten times as long as
// the longest action is predicted to take (at least 30 s) before it counts as stuck. Throws Error.
std::unique_ptr<runtime::Crew> assemble_crew(const CrewFlags& flags, int workers,
                                             const Interrupts& interrupts,
                                             double longest_action_seconds = 0);

}  // namespace kerf::apps
