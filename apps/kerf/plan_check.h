// kerf plan MODEL --check FILE: whether a plan, or stages that were decided elsewhere, are sound.
#pragma once

#include <string>

#include "apps/kerf/plan_flags.h"

namespace kerf::apps {

// Tells what was found (`unsound` empty: nothing) and returns the exit code, 0 or 1.
int answer_check(std::string unsound, const std::string& file, bool json);
// Of a model: a plan's file, or one of node to stage. Throws where it cannot be read as either.
int check_plan_file(const PlanFlags& flags, const std::string& file, bool json);

}  // namespace kerf::apps
