// What the halves of the Lasso say to each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::apps {

struct LassoSetJob {
  std::string x, y;   // files, absolute
  int64_t begin = 0;  // rows of this worker
  int64_t end = 0;
  int64_t rows = 0;  // of the whole, as the scheduler saw it
  int64_t columns = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(x, y, begin, end, rows, columns);
  }
};

// In this order: apply `change` of `changed`, then answer for what is asked.
struct LassoSetTask {
  std::vector<int32_t> changed;
  std::vector<double> change;
  std::vector<int32_t> set;                      // x_j . r of each
  std::vector<int32_t> gram_rows, gram_columns;  // x_i . x_k of each pair
  int64_t first = 0, count = 0;                  // x_j . r of these columns in a row
  bool norms = false;                            // of those columns x_j . x_j instead
  bool objective = false;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(changed, change, set, gram_rows, gram_columns, first, count, norms, objective);
  }
};

// Of own rows; sums over all workers are what they say.
struct LassoSetResult {
  std::vector<double> products;  // of the set
  std::vector<double> gram;      // rows x columns, row-major
  std::vector<double> range;     // of the columns in a row
  double residual = 0;           // r . r
  double fit = 0;                // y . r

  template <class Archive>
  void serialize(Archive& archive) {
    archive(products, gram, range, residual, fit);
  }
};

struct LassoSetMessages {
  using Job = LassoSetJob;
  using Task = LassoSetTask;
  using Result = LassoSetResult;
};

}  // namespace kerf::apps
