// The Lasso by sweeps over columns that are divided over the workers: what lasso_sets.h does, for
// where speed is all that counts. After CoCoA (Smith et al., "CoCoA: a general framework for
// communication-efficient distributed optimization", JMLR 2018), with working sets as in celer
// (Massias et al., ICML 2018).
//
// Each worker has some columns, their b, and a copy of the residual r = y - X b. A round:
//
//   schedule   gives everybody the residual, and says how often to sweep
//   update     sweeps over the worker's active columns, one after the other, on its own copy
//   aggregate  adds up by how much these changed r: all of it where the objective falls, else the
//              mean of what the workers found, which never rises (it is convex)
//
// Now and then the residuals of the last rounds are mixed into one that is nearer to their limit
// (extrapolation.h), and so are the b's, of which they are linear functions; if that is worse than
// what is known without it, all goes back.
//
// Every other round also says how far the active columns by themselves are from their optimum. When
// that is near enough, all columns are looked at: that gives the duality gap (duality_gap.h), and
// the next active ones. The best dual solution so far counts.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/lasso/duality_gap.h"
#include "apps/lasso/lasso_problem.h"
#include "apps/lasso/lasso_sweep_messages.h"
#include "apps/report/convergence_run.h"
#include "schedmp/program.h"
#include "schedmp/state.h"

namespace kerf::apps {

struct LassoSweepOptions : LassoProblem {
  int sweeps = 2;  // of a round
};

class LassoSweeps
    : public schedmp::KeepsState<LassoSweeps, schedmp::SchedulerHalf<LassoSweepMessages>> {
 public:
  // `y` is the file's.
  LassoSweeps(const LassoSweepOptions& options, int workers, std::vector<double> y);

  std::string name() const override { return "lasso-sweeps"; }
  Job job(int worker) override;
  Decision schedule(int64_t round) override;
  void aggregate(int64_t round, std::vector<Result> results) override;
  template <class Archive>
  void state(Archive& archive) {
    archive(run_, phase_, residual_, b_, check_, look_, kept_, mix_, back_, due_, dual_, last_gap_,
            iterates_, unmixed_, objective_, updates_, rounds_unchecked_);
  }

  const std::vector<double>& solution() const { return b_; }
  ConvergenceRun& run() { return run_; }
  const ConvergenceRun& run() const { return run_; }

 private:
  enum class Phase : uint8_t { kSweeps, kSolution, kOver };
  // What the workers said together.
  struct Sum {
    LassoTerms before;  // the sweeps
    double l1_swept = 0;
    std::vector<double> change;  // of the residual
  };

  std::vector<Task> tasks_of_sweeps() const;
  std::vector<Task> tasks_of_solution() const;
  Sum sum_of(const std::vector<Result>& results);
  void take_sweeps(int64_t round, const std::vector<Result>& results);
  void take_solution(const std::vector<Result>& results);
  // Whether the mixture that this round began with was no better, so that it goes back.
  bool goes_back(double objective);
  bool ends_by_check(int64_t rounds, double objective);
  void move(const Sum& sum, double objective);
  void mix();
  void plan_next(double gap);

  LassoSweepOptions options_;
  int workers_;
  std::vector<double> y_;
  ConvergenceRun run_;
  Phase phase_ = Phase::kSweeps;
  std::vector<double> residual_;
  std::vector<double> b_;

  // Of the next round, or of the one under way:
  bool check_ = true;        // all columns are looked at
  bool look_ = false;        // the active ones are, every other time
  double kept_ = 1;          // of what the sweeps before changed
  std::vector<double> mix_;  // coefficients; empty: nothing is mixed
  bool back_ = false;        // the last mixture is undone

  bool due_ = true;                            // the active columns are near enough
  double dual_ = 0;                            // the largest of all checks
  double last_gap_ = 1;                        // of a check
  std::vector<std::vector<double>> iterates_;  // residuals since the last mixture
  std::vector<double> unmixed_;                // the residual without the last mixture
  double objective_ = 0;                       // at least that of the residual
  int64_t updates_ = 0;
  int rounds_unchecked_ = 0;
};

}  // namespace kerf::apps
