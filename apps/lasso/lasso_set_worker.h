// The Lasso on a worker: its rows of X by column, and of the residual r = y - X b. A second copy of
// X, by row, is for Gram blocks: a column's products with all others are a walk over its rows.
#pragma once

#include <vector>

#include "apps/data/sparse_columns.h"
#include "apps/lasso/lasso_set_messages.h"
#include "schedmp/program.h"
#include "schedmp/state.h"

namespace kerf::apps {

class LassoSetWorker
    : public schedmp::KeepsState<LassoSetWorker, schedmp::WorkerHalf<LassoSetMessages>> {
 public:
  // Reads its rows. Throws Error{kUsage} that names the file.
  void start(runtime::Workplace& workplace, const LassoSetJob& job) override;
  LassoSetResult update(const LassoSetTask& task) override;
  template <class Archive>
  void state(Archive& archive) {
    archive(residual_);
  }

 private:
  std::vector<double> gram(const LassoSetTask& task);
  void add_products_of(int32_t column);

  runtime::Activity* activity_ = nullptr;
  LassoSetJob job_;
  SparseColumns x_;
  std::vector<double> y_, residual_;
  SparseColumns by_row_;          // transposed, from the first question for a Gram block on
  std::vector<double> products_;  // of one column with each; zero but within gram()
};

}  // namespace kerf::apps
