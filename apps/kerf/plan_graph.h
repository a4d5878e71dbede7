// kerf plan GRAPH --format FORMAT: the layer cut of another tool's graph, which is no model.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/kerf/plan_flags.h"

namespace kerf::apps {

// `kind`: the value of --format. Prints the plan and returns the exit code. `command` knows which
// flags were given: those that only models have are refused. Throws Error{kUsage} or
// Error{kInfeasible}.
int plan_graph_file(const CLI::App& command, const PlanFlags& flags, const std::string& kind,
                    bool json);

}  // namespace kerf::apps
