// kerf schedule search: its flags, and the search on a chain of stages with a sign of life.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "apps/kerf/planned.h"
#include "schedmp/search/schedule_search.h"

namespace kerf::apps {

inline constexpr const char* kSearch = "search";  // in place of a schedule's name

struct ScheduleSearchFlags {
  std::optional<std::string> keep;  // "4" or "4,3,2,1": micro-batches that each worker may keep
  std::optional<double> seconds;
};

void add_schedule_search_flags(CLI::App& command, ScheduleSearchFlags& flags);
// Throws Error{kUsage} where there are some and the schedule is another.
void check_schedule_search_flags(const ScheduleSearchFlags& flags, const std::string& schedule);

// What is looked for: by these costs, in as much as the flags let workers keep, else a cap of
// bytes, else 1F1B. All throw Error{kUsage} that names the flag.
struct ScheduleSearch {
  std::optional<schedmp::ActionCosts> costs;
  ScheduleSearchFlags flags;
  uint64_t seed = 0;
  std::vector<double> speeds = {};  // of a plan's workers
};
// Of a chain, one stage on each worker.
schedmp::FoundSchedule search_chain(int workers, int micro_batches, const ScheduleSearch& search);
// Of a plan's stages; without costs, by those that it is priced by, which `search` gets. Throws
// Error{kInfeasible} too, where the plan's cap is too small for any schedule.
schedmp::FoundSchedule search_plan(const Planned& planned, ScheduleSearch& search);

}  // namespace kerf::apps
