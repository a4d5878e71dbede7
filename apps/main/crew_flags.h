// How the workers of a run are started and reached: flags of every command that runs something.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/main/interrupts.h"
#include "partitioner/plan.h"
#include "runtime/crew.h"
#include "schedmp/program.h"

namespace kerf::apps {

using partitioner::kMostWorkers;
inline constexpr int kMostThreads = 1024;  // per worker
inline constexpr std::chrono::seconds kShrinkAfter{10};

struct CrewFlags {
  std::optional<std::string> transport;
  std::optional<std::string> device;  // of local workers: a list, see device_list.h
  std::string listen;
  std::string keys;               // a folder: for --listen
  bool encrypt_data = false;      // what workers send each other over tcp; with keys
  std::string hosts;              // a file, see host_list.h: for --listen
  std::string launcher = "auto";  // see ranks.h
  bool launched = false;          // the workers are tasks of a launcher, and this process the first
  // Likewise, where the first keeps one, too: its command.
  std::vector<std::string> own_worker = {};
  int spares = 0;              // that may wait, with --listen
  std::optional<int> threads;  // per worker
  bool no_restart = false;     // the loss of a worker ends the run
  // Steps, or rounds, from where workers keep what they hold to where they do it next; none: as
  // often as it costs little.
  std::optional<int64_t> buddy_every = {};
  bool shrink = false;                             // where nobody takes its place, the others go on
  std::vector<runtime::Returning> returning = {};  // of --listen: who had places before
};

// What a plan is made for where nobody says: the memory of slots is proved anew for the pairs that
// workers turn out to be.
inline constexpr const char* kPlannedTransport = "shm";
inline constexpr const char* kDefaultDevice = "cpu";

// Of the workers in turn. Throws Error{kUsage} as device_list() does; with --listen, CPUs, unless
// a launcher starts them.
std::vector<runtime::DeviceKind> device_kinds(const CrewFlags& flags);

void add_crew_flags(CLI::App& command, CrewFlags& flags);
// For what keeps checkpoints: seconds; empty where it was not given.
CLI::Option* add_keep_workers_flag(CLI::App& command, std::optional<int>& seconds);
// For what keeps its workers' state; `step` is what the program calls a step.
void add_buddy_flag(CLI::App& command, CrewFlags& flags, const std::string& step);
// Throws Error{kUsage} where it was given and could do nothing; `in_memory`: with --keep-workers.
void check_buddy_flag(const CrewFlags& flags, bool in_memory);
// For what computes with as many threads as it is told.
void add_threads_flag(CLI::App& command, CrewFlags& flags);

// Throws Error{kInfeasible} if those workers that compute on CPUs need more bytes together than
// this host has; a GPU that is full says so itself. Nothing is known where workers may be on
// others.
// `bytes` is of each worker; `way_out` says what to change.
void check_host_memory(const CrewFlags& flags, const std::vector<double>& bytes,
                       const std::string& way_out);

// All memory that this host has for a run's workers; nothing where they may be on others.
std::optional<int64_t> host_memory(const CrewFlags& flags);

// What a run needs of its workers.
struct CrewNeeds {
  int workers = 1;
  schedmp::ProgramFactories programs;  // that they can run
  // As predicted; 0: unknown. A worker may compute for ten times as long (at least 30 s) before it
  // counts as stuck.
  double longest_action_seconds = 0;
  // Told who is here, before they begin, and for how long it waited for those that come by
  // themselves. What it throws ends the run. May be empty.
  std::function<void(const std::vector<runtime::WorkerInfo>& workers, double waited_seconds)>
      are_here = {};
};

// Tells on the standard error output of workers that connect; `again`: behind a loss.
runtime::Crew::Waiting tell_who_is_here(const CrewFlags& flags, const CrewNeeds& needs, bool again);

// Starts processes, so it comes before anything that has ZeroMQ in it; with --listen it waits for
// workers and tells `waiting`. Throws Error.
std::unique_ptr<runtime::Crew> assemble_crew(const CrewFlags& flags, const CrewNeeds& needs,
                                             const Interrupts& interrupts,
                                             const runtime::Crew::Waiting& waiting);

}  // namespace kerf::apps
