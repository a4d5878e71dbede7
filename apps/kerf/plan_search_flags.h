// The flags of kerf plan that say how far to search, and what to do beside making a plan.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "apps/kerf/plan_flags.h"

namespace kerf::apps {

struct SearchFlags {
  std::optional<int> hosts;  // of graphs that are no models
  bool front = false;
  std::string check;        // a plan's file, or an assignment's
  std::string graph_out;    // the cost graph
  std::string stage_costs;  // of actions, by stage
};

void add_search_flags(CLI::App& command, PlanFlags& plan, SearchFlags& search);

}  // namespace kerf::apps
