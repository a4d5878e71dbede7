// The Lasso by sweeps on a worker: its columns of X with their b, and a copy of the residual
// r = y - X b. A sweep goes through the active columns one after the other, and sets each b_j to
// the minimum along it. Active, the working set, are the columns in use and, chosen whenever all
// are looked at, as many again of those that would move.
#pragma once

#include <vector>

#include "apps/data/sparse_columns.h"
#include "apps/lasso/lasso_sweep_messages.h"
#include "schedmp/program.h"
#include "schedmp/state.h"

namespace kerf::apps {

class LassoSweepWorker
    : public schedmp::KeepsState<LassoSweepWorker, schedmp::WorkerHalf<LassoSweepMessages>> {
 public:
  // Reads its columns. Throws Error{kUsage} that names the file.
  void start(runtime::Workplace& workplace, const LassoSweepJob& job) override;
  LassoSweepResult update(const LassoSweepTask& task) override;
  template <class Archive>
  void state(Archive& archive) {
    archive(residual_, before_, b_, b_before_, remembered_, unmixed_, active_);
    if (Archive::is_loading::value) copy_active();
  }

 private:
  void take(const LassoSweepTask& task);
  void keep(double part);
  void mix(const std::vector<double>& coefficients);
  void go_back();
  double look_at_all();
  double look_at_active() const;
  void copy_active();
  void sweep();
  double l1() const;

  runtime::Activity* activity_ = nullptr;
  double lambda_ = 0;
  SparseColumns x_;
  std::vector<double> squared_norms_;
  std::vector<double> residual_, before_;  // now, and before the last sweeps
  std::vector<double> b_, b_before_;
  std::vector<std::vector<double>> remembered_;  // b's, one behind the other
  std::vector<double> unmixed_;                  // what was there before the last mixture
  std::vector<int32_t> active_;
  SparseColumns active_x_;  // a copy of those columns, one behind the other
};

}  // namespace kerf::apps
