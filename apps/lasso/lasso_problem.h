// What is asked of the Lasso, whichever program solves it.
#pragma once

#include <cstdint>
#include <string>

#include "apps/report/convergence_run.h"

namespace kerf::apps {

struct LassoProblem : ConvergenceLimits {
  std::string x, y;  // files
  int64_t rows = 0;
  int64_t columns = 0;
  double lambda = 0;
};

}  // namespace kerf::apps
