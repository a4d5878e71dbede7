// How a run that minimises something goes, by whichever program: what is known of it when, and when
// it is over. The scheduler's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/report/history.h"

namespace kerf::apps {

struct ConvergenceLimits {
  double tolerance = 1e-5;  // of the relative gap
  int64_t most_passes = 0;  // as many updates as there are variables are a pass; 0: no limit
  double most_seconds = 0;  // 0: no limit
};

// (P - D) / P, at least 0: what P is above the optimum, in parts of P, is no more. D may be of
// another solution.
inline double relative_gap(double primal, double dual) {
  if (primal == 0) return 0;
  const double gap = (primal - dual) / primal;
  return gap < 0 ? 0 : gap;  // no number stays none
}

// Of its points.
double objective_of(const HistoryPoint& point);
std::optional<double> gap_of(const HistoryPoint& point);

class ConvergenceRun {
 public:
  // Metrics of its history. The gap is known at checks.
  enum Metrics : uint8_t { kObjective, kGap };

  // A pass has so many updates. `file` is to blame where the objective is no finite number.
  ConvergenceRun(const ConvergenceLimits& limits, int64_t pass, std::string file);

  void begin() { history_.begin(); }
  // So many updates were made, or are under way: a limit is reached.
  bool limit_is_reached(int64_t updates) const;

  // Between checks; some are kept. Both throw Error{kUsage} where the objective is no finite
  // number.
  void note(int64_t rounds, int64_t updates, double objective);
  // All variables were looked at. Whether it is over: converged, at a limit, or stalled.
  bool check(int64_t rounds, int64_t updates, double objective, double gap);

  bool converged() const { return converged_; }
  // Many checks brought nothing.
  bool stalled() const { return in_vain_ >= kMostInVain; }
  History& history() { return history_; }
  const std::vector<HistoryPoint>& points() const { return history_.points(); }
  // Gaps fall by factors: how much of the way from the first to the tolerance is behind us, in
  // [0, 1].
  double way() const;
  // What a snapshot holds of it.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(next_note_, first_gap_, least_, least_gap_, most_dual_, in_vain_, converged_, history_);
  }

 private:
  static constexpr int kMostInVain = 20;
  void keep(int64_t rounds, int64_t updates, double objective, std::optional<double> gap);

  ConvergenceLimits limits_;
  int64_t pass_;
  std::string file_;
  int64_t next_note_ = 0;  // at so many updates
  double first_gap_ = 0;
  double least_ = 0;  // objective of a check
  double least_gap_ = 0;
  double most_dual_ = 0;  // what the gap leaves of the objective
  int in_vain_ = 0;       // checks in a row
  bool converged_ = false;
  History history_;
};

}  // namespace kerf::apps
