// What the halves of matrix factorisation say to each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/mf/rating_cells.h"

namespace kerf::apps {

enum class MfAlgorithm : uint8_t {
  kSgd,  // stochastic gradient descent
  kCcd,  // CCD++: rank_ones.h
};

struct MfJob {
  std::string ratings, test;  // files, absolute; test may be empty
  int64_t users = 0;          // of the whole, as the scheduler saw it
  int64_t items = 0;
  int32_t blocks = 0;
  int32_t rank = 0;
  MfAlgorithm algorithm = MfAlgorithm::kSgd;
  uint64_t seed = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(ratings, test, users, items, blocks, rank, algorithm, seed);
  }
};

enum class MfWork : uint8_t {
  kPace,    // say how long steps over a sample of ratings take
  kRead,    // own users' ratings, and say what they are like
  kSteps,   // a whole turn of the blocks: steps over the ratings of each
  kMinima,  // turn by turn the minimum along every number of the rows, and kErrors
  kErrors,  // a whole turn in which all rows stay
  kRows,    // say some rows
};

struct MfTask {
  MfWork work = MfWork::kRead;
  // Of a turn: ratings are less `mean`, by `scale`; rows are of these.
  double mean = 0, scale = 1;
  double step = 0, lambda = 0;
  int64_t first = 0, count = 0;  // of kRead: own users; of kRows: rows, from those of
  int32_t place = -1;            // own users, or the block that is at home at this place

  template <class Archive>
  void serialize(Archive& archive) {
    archive(work, mean, scale, step, lambda, first, count, place);
  }
};

struct MfResult {
  double seconds = 0;  // of kPace
  Moments moments;     // of kRead
  // Of a turn. In kSteps, an error is met when its rating's turn comes, before the step; else all
  // are of the same rows.
  double errors = 0;       // sum of squares
  double squares = 0;      // the sum over ratings of |p|^2 + |q|^2
  double test_errors = 0;  // sum of squares
  int64_t tested = 0;
  std::vector<float> rows;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(seconds, moments, errors, squares, test_errors, tested, rows);
  }
};

struct MfMessages {
  using Job = MfJob;
  using Task = MfTask;
  using Result = MfResult;
};

}  // namespace kerf::apps
