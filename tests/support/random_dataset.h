// A data set of keyed random rows whose labels can be learnt: class = the largest of the row's
// first `classes` features.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>

#include "ops/random.h"
#include "runtime/format.h"
#include "schedmp/dataset.h"

namespace kerf::tests {

class RandomDataset : public schedmp::FeatureRows {
 public:
  RandomDataset(int64_t rows, int64_t features, int64_t classes, uint64_t seed = 5)
      : rows_(rows), features_(features), classes_(classes), seed_(seed) {}

  // Whose features are no numbers from then on.
  void make_odd(int64_t row) { odd_ = row; }

  int64_t rows() const override { return rows_; }
  int64_t features() const override { return features_; }
  int64_t classes() const override { return classes_; }
  std::string fingerprint() const override {
    return kerf::format("random {} {} {} {}", rows_, features_, classes_, seed_);
  }
  void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    for (size_t i = 0; i < rows.size(); ++i)
      for (int64_t j = 0; j < features_; ++j)
        to.f32()[static_cast<int64_t>(i) * features_ + j] = feature(rows[i], j);
  }
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override {
    for (size_t i = 0; i < rows.size(); ++i) {
      int64_t best = 0;
      for (int64_t j = 1; j < std::min(classes_, features_); ++j)
        if (feature(rows[i], j) > feature(rows[i], best)) best = j;
      to.i64()[i] = best;
    }
  }

 private:
  float feature(int64_t row, int64_t column) const {
    if (row == odd_) return std::numeric_limits<float>::quiet_NaN();
    return ops::normal({seed_, 0, 0, 0}, row * features_ + column);
  }

  int64_t rows_, features_, classes_;
  uint64_t seed_;
  int64_t odd_ = -1;
};

}  // namespace kerf::tests
