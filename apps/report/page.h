// A run's report as one page for browsers: self-contained, readable without scripts, light or dark
// as the reader's system is. All names in it came from outside and are escaped. Pure function.
#pragma once

#include <string>

#include "apps/report/run_record.h"

namespace kerf::apps {

// HTML. Where the run left something out it says how to get it.
std::string report_page(const RunRecord& record);

}  // namespace kerf::apps
