// The flags of `kerf schedule`, as given.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/kerf/cost_flags.h"
#include "apps/kerf/plan_flags.h"
#include "apps/kerf/schedule_search.h"

namespace kerf::apps {

inline constexpr int kMostStageWorkers = 1 << 16;  // of a schedule without a plan

struct ScheduleFlags {
  PlanFlags plan;  // its schedule, which is the command's NAME, and how it is cut
  std::optional<int> chunks;
  std::optional<int> in_flight;  // the cap of a built-in schedule
  bool recompute = false;
  CostFlags costs;
  ScheduleSearchFlags search;
  std::string buffer;  // a number, rendezvous or unbounded
  std::string plan_file;
  bool with_plan = false;     // of a file, or of a model
  std::string needs_plan;     // a flag that says nothing without one
  std::string out, csv, svg;  // files to write
  bool json = false;

  std::string name() const { return plan.schedule.value_or(plan.default_schedule); }
  bool searches() const { return plan.schedule == kSearch; }
};

// Those that it gives back say nothing without a model or a plan.
std::vector<const CLI::Option*> add_schedule_flags(CLI::App& command, ScheduleFlags& flags);

}  // namespace kerf::apps
