// What a training keeps of its workers' state for a restart (schedmp/worker_tasks.h): two files of
// each worker in memory of the scheduler's host, beside what workers take. Where that goes beyond
// a cap, nothing is kept there, and behind a loss a run begins again from the disk. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace kerf::apps {

struct RestartMemory {
  int64_t bytes = 0;      // of both files of all workers
  std::string forbidden;  // by what, where nothing is kept; empty: it is
};

// Of workers that run on the scheduler's host: `taken` is what each takes while it runs, `kept` one
// of its files. `cap`: of each worker, --memory, which of one on a CPU is memory of the host.
// `host`: all that it has; unknown: of no run yet.
RestartMemory restart_memory(const std::vector<int64_t>& taken, const std::vector<int64_t>& kept,
                             const std::vector<runtime::DeviceKind>& kinds,
                             std::optional<int64_t> cap, std::optional<int64_t> host);

// For people, in a line. `keeps_checkpoints`: of a run with --keep-workers, whose memory is asked
// for and counts against no cap.
std::string kept_text(const RestartMemory& kept, bool keeps_checkpoints = false);

}  // namespace kerf::apps
