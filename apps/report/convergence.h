// How a program that minimises something got to its end: what was known when, as a bar while it
// runs, and as a table and JSON behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/report/drawn_line.h"
#include "runtime/json.h"

namespace kerf::apps {

// What was known at one moment.
struct ConvergencePoint {
  int64_t rounds = 0;
  int64_t updates = 0;  // of one variable each, changed or not
  double seconds = 0;   // since the program began
  double objective = 0;
  std::optional<double> gap;  // relative, where it was computed
};

// A list of objects, gap null where it was not computed.
Json to_json(const std::vector<ConvergencePoint>& points);
// Of so many rows at most, the last point among them; a pass has so many updates.
std::string convergence_table(const std::vector<ConvergencePoint>& points, int64_t pass,
                              size_t most_rows = 12);

// With a bar that is full when the gap is down at the tolerance.
class ConvergenceProgress : public DrawnLine {
 public:
  // A pass has so many updates.
  ConvergenceProgress(Progress::Options options, int64_t pass, double tolerance);
  void tell(const ConvergencePoint& point);

 private:
  std::string line_of(const ConvergencePoint& point) const;

  int64_t pass_;
  double tolerance_;
  std::optional<double> first_gap_, gap_;
};

}  // namespace kerf::apps
