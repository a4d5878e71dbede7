// How a model of ratings came to fit: what was known when, as a bar while it runs, and as a table
// and JSON behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/report/drawn_line.h"
#include "runtime/json.h"

namespace kerf::apps {

// Behind one iteration. RMSE: the root of the mean squared error.
struct FitPoint {
  int64_t iterations = 0;
  int64_t updates = 0;  // ratings that were worked on
  double seconds = 0;   // since the program began
  double objective = 0;
  double train_rmse = 0;
  std::optional<double> test_rmse;  // where there is something to test on
};

// A list of objects, test_rmse null where there is none.
Json to_json(const std::vector<FitPoint>& points);
// Of so many rows at most, the last point among them.
std::string fit_table(const std::vector<FitPoint>& points, size_t most_rows = 12);

// With a bar that is full behind so many iterations.
class FitProgress : public DrawnLine {
 public:
  FitProgress(Progress::Options options, int64_t iterations);
  void tell(const FitPoint& point);

 private:
  std::string line_of(const FitPoint& point) const;

  int64_t iterations_;
};

}  // namespace kerf::apps
