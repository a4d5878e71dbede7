// A traced step as a Gantt chart: for each worker what was predicted above what was measured. SVG
// for within the report's page (page.h), which has the colours. Pure function.
#pragma once

#include <string>

#include "apps/report/traced_step.h"

namespace kerf::apps {

// On one clock from the step's start; predicted times are drawn `stretch` times as long.
std::string draw_timeline(const TracedStep& traced, double stretch = 1);

}  // namespace kerf::apps
