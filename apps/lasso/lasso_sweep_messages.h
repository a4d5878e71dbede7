// What the halves of the Lasso by sweeps say to each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::apps {

struct LassoSweepJob {
  std::string x;      // a file, absolute
  int64_t begin = 0;  // columns of this worker
  int64_t end = 0;
  int64_t rows = 0;  // of the whole, as the scheduler saw it
  int64_t columns = 0;
  double lambda = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(x, begin, end, rows, columns, lambda);
  }
};

// In this order: take `residual` for rows from `first` on; keep so much of what the last sweeps
// changed, and remember the b that this makes; mix those that are remembered, or go back to what
// was there before the last mixture; look at own columns; sweep so many times; answer with what
// is asked for.
struct LassoSweepTask {
  int64_t first = 0;
  std::vector<double> residual;
  bool keep = false;
  double kept = 1;          // in [0, 1]
  std::vector<double> mix;  // a coefficient of each remembered b but the first
  bool back = false;
  bool look = false;   // at the active columns
  bool check = false;  // at all
  int32_t sweeps = 0;
  // Of rows of the residual, or of own columns' b.
  int64_t asked_first = 0, asked_count = 0;
  bool solution = false;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(first, residual, keep, kept, mix, back, look, check, sweeps, asked_first, asked_count,
            solution);
  }
};

struct LassoSweepResult {
  double l1 = 0;               // of own b, before the sweeps
  double l1_swept = 0;         // and after
  double largest_product = 0;  // of own |x_j . r| before, of the columns that were looked at
  int64_t updates = 0;
  std::vector<double> asked;  // by how much the sweeps changed the residual, or b

  template <class Archive>
  void serialize(Archive& archive) {
    archive(l1, l1_swept, largest_product, updates, asked);
  }
};

struct LassoSweepMessages {
  using Job = LassoSweepJob;
  using Task = LassoSweepTask;
  using Result = LassoSweepResult;
};

}  // namespace kerf::apps
