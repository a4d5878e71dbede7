// Linear classifiers, logistic regression and support vector machines, by dual coordinate descent
// over rows that are divided over the workers: 1/2 |w|^2 and C times the sum of the rows' losses is
// made as small as its dual is large (dual_losses.h). What lasso/lasso_sweeps.h does with columns,
// after CoCoA (Smith et al., "CoCoA: a general framework for communication-efficient distributed
// optimization", JMLR 2018).
//
// Each worker has some rows, their a, and a copy of the weights w. A round:
//
//   schedule   gives everybody the weights, and says how often to sweep
//   update     sweeps over the worker's rows, one after the other, on its own copy
//   aggregate  adds up by how much these changed w, and goes as far that way as D rises
//
// Of a step of part s along what all found, with dual(a) concave,
//
//   D(s) - D(0) >= s (sum dual(a + da) - sum dual(a) - w . dw) - s^2 / 2 |dw|^2
//
// which is largest at the s that is taken, in [0, 1]; for the hinge it is D itself. As each worker
// by itself made D no smaller, that s is at least 1 / (2 workers), and D never falls.
//
// Sweeps say what rows add to the duality gap when they come to them, from which the next gap is
// guessed. Where that is much smaller than the last that is known, all rows are looked at before
// the sweeps, with the same weights: that gives P, and (P - D) / P. Where it should be down at the
// tolerance, nothing else is done in the round.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/classifier/classifier_messages.h"
#include "apps/report/convergence_run.h"
#include "schedmp/program.h"
#include "schedmp/state.h"

namespace kerf::apps {

struct ClassifierOptions : ConvergenceLimits {
  LabelledFile file;
  LabelledSize size;
  LinearLoss loss = LinearLoss::kLogistic;
  double c = 1;
  double bias = 0;  // of a feature more that all rows have; 0: none
  int sweeps = 1;   // of a round
  uint64_t seed = 1;
};

class Classifier
    : public schedmp::KeepsState<Classifier, schedmp::SchedulerHalf<ClassifierMessages>> {
 public:
  Classifier(const ClassifierOptions& options, int workers);

  std::string name() const override { return "classifier"; }
  Job job(int worker) override;
  Decision schedule(int64_t round) override;
  void aggregate(int64_t round, std::vector<Result> results) override;
  template <class Archive>
  void state(Archive& archive) {
    archive(run_, weights_, check_, ends_, kept_, over_, last_gap_, met_, guessed_, truth_,
            rounds_unchecked_, updates_);
  }

  // Of all features, and of the bias behind them if there is one.
  const std::vector<double>& weights() const { return weights_; }
  ConvergenceRun& run() { return run_; }
  const ConvergenceRun& run() const { return run_; }

 private:
  // What the workers said together.
  struct Sum {
    double dual = 0, dual_swept = 0;
    double losses = 0;
    double gap = 0;
    std::vector<double> change;  // of the weights
  };

  Sum sum_of(const std::vector<Result>& results);
  bool ends_by_check(int64_t rounds, const Sum& sum);
  void plan_next(const Sum& sum);
  void move(const Sum& sum);

  ClassifierOptions options_;
  int workers_;
  ConvergenceRun run_;
  std::vector<double> weights_;
  // Of the next round, or of the one under way:
  bool check_ = false;  // all rows are looked at
  bool ends_ = false;   // and that is all
  double kept_ = 1;     // of what the sweeps before changed

  bool over_ = false;
  double last_gap_ = 1;  // of a check
  double met_ = 1;       // by the sweeps of the last round, about the relative gap
  double guessed_ = 1;   // of the round under way
  double truth_ = 1;     // in parts of what is guessed without it
  int rounds_unchecked_ = 0;
  int64_t updates_ = 0;
};

}  // namespace kerf::apps
