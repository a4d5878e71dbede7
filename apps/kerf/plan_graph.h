// kerf plan GRAPH --format FORMAT: the layer cut of another tool's graph, which is no model.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "apps/kerf/plan_flags.h"
#include "apps/kerf/plan_search_flags.h"

namespace kerf::apps {

struct GraphFlags {
  SearchFlags search;
  int stages_per_worker = 1;
  std::optional<int> hosts;  // empty: as the file says
};

// `kind`: the value of --format. Prints the plan and returns the exit code. `command` knows which
// flags were given: those that only models have are refused. Throws Error{kUsage} or
// Error{kInfeasible}.
int plan_graph_file(const CLI::App& command, const PlanFlags& flags, const GraphFlags& graph,
                    const std::string& kind, bool json);

}  // namespace kerf::apps
