// kerf bench schedules: every schedule planned, simulated by what the machine takes, and run.
#pragma once

#include <string>
#include <vector>

#include "apps/kerf/planned.h"
#include "apps/report/schedule_bench.h"

namespace kerf::apps {

struct BenchSchedulesFlags {
  PlanFlags plan;
  CrewFlags crew;
  std::vector<std::string> schedules;  // empty: all built-in ones that train
  std::string data = "synthetic";
  int64_t steps = 7;  // measured, of each
  int64_t warm_up = 2;
  bool simulate_only = false;
  bool own_costs = false;  // each is priced by a first run of its own
  bool equal_memory = true;
};

// Throws Error: kUsage for flags that make no sense, kInfeasible where 1F1B, by which memory is
// compared, has no plan, and what ended a run.
ScheduleBench bench_schedules(const BenchSchedulesFlags& flags);

}  // namespace kerf::apps
