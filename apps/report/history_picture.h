// A picture of how a program came to its end: each metric over seconds, one below the other. A pure
// function.
#pragma once

#include <string>

#include "apps/report/history.h"

namespace kerf::apps {

// SVG. What is no finite number is left out.
std::string draw_history(const History& history, const std::string& title);

}  // namespace kerf::apps
