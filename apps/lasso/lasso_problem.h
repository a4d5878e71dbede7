// What is asked of the Lasso, whichever program solves it.
#pragma once

#include <cstdint>
#include <string>

namespace kerf::apps {

struct LassoProblem {
  std::string x, y;  // files
  int64_t rows = 0;
  int64_t columns = 0;
  double lambda = 0;
  double tolerance = 1e-5;  // of the relative gap
  int64_t most_passes = 0;  // as many updates as there are variables are a pass; 0: no limit
  double most_seconds = 0;  // 0: no limit
};

}  // namespace kerf::apps
