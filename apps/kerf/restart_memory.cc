#include "apps/kerf/restart_memory.h"

#include <numeric>

#include "apps/report/table.h"
#include "partitioner/request.h"
#include "runtime/format.h"
#include "schedmp/training/kept_bytes.h"

namespace kerf::apps {

namespace {

bool is_on_cpu(const std::vector<runtime::DeviceKind>& kinds, size_t worker) {
  return partitioner::device_of(kinds, static_cast<int>(worker)) == runtime::DeviceKind::kCpu;
}

std::string beyond_cap(int64_t taken, int64_t files, size_t worker, int64_t cap) {
  return format("worker {} takes {}, and what is kept of it {}: together more than the cap of {}",
                worker, bytes_text(taken), bytes_text(files), bytes_text(cap));
}

}  // namespace

RestartMemory restart_memory(const std::vector<int64_t>& taken, const std::vector<int64_t>& kept,
                             const std::vector<runtime::DeviceKind>& kinds,
                             std::optional<int64_t> cap, std::optional<int64_t> host) {
  RestartMemory all;
  all.bytes = schedmp::kKeptFiles * std::accumulate(kept.begin(), kept.end(), int64_t{0});
  int64_t workers = 0;
  for (size_t worker = 0; worker < taken.size(); ++worker) {
    if (!is_on_cpu(kinds, worker)) continue;
    workers += taken[worker];
    const int64_t files = schedmp::kKeptFiles * kept.at(worker);
    if (cap && taken[worker] + files > *cap && all.forbidden.empty())
      all.forbidden = beyond_cap(taken[worker], files, worker, *cap);
  }
  if (host && *host > 0 && workers + all.bytes > *host && all.forbidden.empty())
    all.forbidden = format("workers take {}, and what is kept of them {}: this host has {}",
                           bytes_text(workers), bytes_text(all.bytes), bytes_text(*host));
  return all;
}

std::string kept_text(const RestartMemory& kept, bool keeps_checkpoints) {
  if (kept.forbidden.empty())
    return format(
        "memory of the scheduler's host for copies that a restart needs, on top of the peaks: {}",
        bytes_text(kept.bytes));
  if (keeps_checkpoints)
    return format(
        "nothing is kept in memory for a restart but the checkpoints of --keep-workers, which no "
        "cap counts: {}. Behind a loss a run begins again from the newest of these",
        kept.forbidden);
  return format(
      "nothing is kept in memory for a restart: {}. Behind a loss a run begins again from the "
      "disk, or its first step",
      kept.forbidden);
}

}  // namespace kerf::apps
