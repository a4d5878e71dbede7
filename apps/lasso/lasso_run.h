// How a run of the Lasso goes, by whichever program: what is known of it when, and when it is over.
// The scheduler's own.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "apps/lasso/lasso_problem.h"
#include "apps/report/convergence.h"

namespace kerf::apps {

class LassoRun {
 public:
  using Observer = std::function<void(const ConvergencePoint&)>;
  // `observer`, if any, is told of every note and check.
  LassoRun(const LassoProblem& problem, Observer observer);

  void begin();
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
  const std::vector<ConvergencePoint>& history() const { return history_; }

 private:
  static constexpr int kMostInVain = 20;
  void keep(const ConvergencePoint& point);

  LassoProblem problem_;
  Observer observer_;
  int64_t begin_ns_ = 0;
  int64_t next_note_ = 0;  // at so many updates
  double least_ = 0;       // objective of a check
  double least_gap_ = 0;
  int in_vain_ = 0;  // checks in a row
  bool converged_ = false;
  std::vector<ConvergencePoint> history_;
};

}  // namespace kerf::apps
