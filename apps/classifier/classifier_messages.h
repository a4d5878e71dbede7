// What the halves of a linear classifier say to each other.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/classifier/dual_losses.h"
#include "apps/classifier/labelled_file.h"

namespace kerf::apps {

struct ClassifierJob {
  LabelledFile file;  // absolute
  int64_t begin = 0;  // rows of this worker
  int64_t end = 0;
  int64_t columns = 0;  // as the scheduler saw them, without the bias
  Labels labels;
  LinearLoss loss = LinearLoss::kLogistic;
  double c = 1;
  double bias = 0;
  uint64_t seed = 1;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(file, begin, end, columns, labels, loss, c, bias, seed);
  }
};

// In this order: take `weights` for features from `first` on; keep so much of what the last sweeps
// changed; look at all rows; sweep so many times; answer with by how much the weights changed that
// are asked for.
struct ClassifierTask {
  int64_t first = 0;
  std::vector<double> weights;
  double kept = 1;  // in [0, 1]
  bool check = false;
  int32_t sweeps = 0;
  int64_t asked_first = 0, asked_count = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(first, weights, kept, check, sweeps, asked_first, asked_count);
  }
};

struct ClassifierResult {
  double dual = 0;        // of own rows, the sum of dual(a), before the sweeps
  double dual_swept = 0;  // and after
  double losses = 0;      // where all were looked at, of own rows with the weights as given
  double gap = 0;         // what rows added to it that the last sweep came to, when it did
  int64_t updates = 0;
  std::vector<double> asked;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(dual, dual_swept, losses, gap, updates, asked);
  }
};

struct ClassifierMessages {
  using Job = ClassifierJob;
  using Task = ClassifierTask;
  using Result = ClassifierResult;
};

}  // namespace kerf::apps
