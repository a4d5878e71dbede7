// The flags of L-BFGS: kerf train --optimizer lbfgs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

#include "apps/kerf/plan_flags.h"
#include "schedmp/training/lbfgs.h"

namespace kerf::apps {

// As given.
struct LbfgsFlags {
  std::optional<int> history;
  std::optional<double> tolerance;

  // Empty where --optimizer names another. Else the plan's flags come to ask for an optimizer
  // without states. `steps`: iterations. Throws Error{kUsage} at a flag that would do nothing.
  std::optional<schedmp::LbfgsOptions> applied_to(PlanFlags& plan,
                                                  std::optional<int64_t> steps) const;
};

void add_lbfgs_flags(CLI::App& command, LbfgsFlags& flags);

}  // namespace kerf::apps
