// The Lasso by scheduled parallel coordinate descent, as STRADS has it (Lee et al., NIPS 2014; Kim
// et al., EuroSys 2016). Minimises
//
//   P(b) = 1/2 |y - X b|^2 + lambda |b|_1
//
// Rows of X are divided over the workers, each of which keeps its rows of the residual r = y - X b.
// A round works on a set of variables:
//
//   schedule   picks the set (variable_sets.h), hands on what changed since the last round
//   update     applies that to r, answers with its share of x_j . r of the set
//   aggregate  adds the shares up; each b_j becomes the minimum along it, all others kept
//
// Rounds overlap, so a set is computed from an r that lacks the changes of those under way: that is
// sound as long as sets hold no variables that depend on each other.
//
// Now and then nothing is under way, and a check looks at all variables: it computes the relative
// duality gap (P - D) / P, which says how far from the optimum P can be (duality_gap.h), and by how
// much each variable would change, which is its priority from then on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "apps/lasso/duality_gap.h"
#include "apps/lasso/lasso_problem.h"
#include "apps/lasso/lasso_set_messages.h"
#include "apps/report/convergence_run.h"
#include "schedmp/program.h"
#include "schedmp/state.h"
#include "schedmp/variables/variable_sets.h"

namespace kerf::apps {

struct LassoSetOptions : LassoProblem {
  int depth = 4;                     // rounds under way
  schedmp::VariableSetOptions sets;  // `variables` follows from `columns`
};

class LassoSets : public schedmp::KeepsState<LassoSets, schedmp::SchedulerHalf<LassoSetMessages>> {
 public:
  // Throws Error{kUsage} of sets that cannot be.
  LassoSets(const LassoSetOptions& options, int workers);

  std::string name() const override { return "lasso-sets"; }
  Job job(int worker) override;
  int depth() const override { return options_.depth; }
  Decision schedule(int64_t round) override;
  // Throws Error{kUsage} where it diverges.
  void aggregate(int64_t round, std::vector<Result> results) override;
  template <class Archive>
  void state(Archive& archive) {
    archive(sets_, run_, b_, l1_, squared_norms_, changed_, change_, phase_, next_column_, checked_,
            deltas_, scheduled_, updates_, next_check_, next_objective_, rounds_, over_);
  }

  const std::vector<double>& solution() const { return b_; }
  ConvergenceRun& run() { return run_; }
  const ConvergenceRun& run() const { return run_; }

 private:
  // Columns in a row are asked about before anything else, and in checks.
  enum class Phase : uint8_t { kNorms, kCheck, kDescent };
  struct Round {
    Phase phase = Phase::kDescent;
    int64_t first = 0, count = 0;          // columns in a row
    schedmp::VariableSets::Chosen chosen;  // of a descent
    bool objective = false;
    // Variables whose x_j . r are asked for: the set, and then those that are looked at.
    std::vector<int64_t> asked() const;
    double l1 = 0;  // |b|_1 as the round's residual knows it
  };

  // The next round of the phase, if it can begin.
  std::optional<Round> next_round(int64_t number);
  std::optional<Round> next_columns();
  std::optional<Round> next_set(int64_t number);
  bool check_is_due() const;
  // Nothing is under way.
  void end_phase();
  void end_check();

  std::vector<Task> tasks_of(const Round& round);
  LassoSetResult sum_of(const std::vector<Result>& results) const;
  void take_check(const Round& round, const LassoSetResult& sum);
  void descend(int64_t number, const Round& round, const LassoSetResult& sum);
  std::vector<double> correlations_of(const Round& round, const LassoSetResult& sum) const;
  // What b_j is at the minimum along it.
  double best(int64_t column, double product) const;
  // In units that are the same for all columns, whatever their lengths.
  double delta(int64_t column, double from, double to) const;
  void change(int64_t column, double value);
  // Throws Error{kUsage} where the objective is far above what it was at first.
  void expect_no_rise(double objective) const;

  LassoSetOptions options_;
  int workers_;
  ConvergenceRun run_;
  schedmp::VariableSets sets_;

  std::vector<double> b_;
  double l1_ = 0;
  std::vector<double> squared_norms_;  // x_j . x_j
  std::vector<int32_t> changed_;       // since the last round
  std::vector<double> change_;

  Phase phase_ = Phase::kNorms;
  std::map<int64_t, Round> under_way_;  // by number
  int64_t next_column_ = 0;
  LassoTerms checked_;          // of the check under way
  std::vector<double> deltas_;  // likewise, of every variable

  int64_t scheduled_ = 0;  // updates
  int64_t updates_ = 0;
  int64_t next_check_ = 0;      // at so many updates
  int64_t next_objective_ = 0;  // likewise
  int64_t rounds_ = 0;
  bool over_ = false;
};

}  // namespace kerf::apps
