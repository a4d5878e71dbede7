// A data set of random numbers that a model can learn: for benchmarks and tests, needs no files.
//
// Row r has a random class; each of its features is uniform noise around the class's own pattern of
// +-0.5. Every number is a function of (split, row, feature), so all workers see the same.
// Immutable after construction; thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "schedmp/dataset.h"

namespace kerf::apps {

class Synthetic : public schedmp::FeatureRows {
 public:
  // "ROWSxFEATURESxCLASSES"; the test split has an eighth of the rows. Throws Error{kUsage}.
  Synthetic(const std::string& sizes, schedmp::Split split);

  int64_t rows() const override { return rows_; }
  int64_t features() const override { return features_; }
  int64_t classes() const override { return classes_; }
  bool classes_are_all() const override { return true; }
  // 1 for the row's class, and 0 for the others.
  std::optional<ops::Shape> targets() const override { return ops::Shape{ops::kBatch, classes_}; }
  std::string fingerprint() const override;
  void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const override;
  void prepare(std::span<const std::string> inputs) const override;
  int64_t held_bytes() const override { return held_; }

 private:
  int64_t label(int64_t row) const;
  void read_targets(std::span<const int64_t> rows, const ops::TensorView& to) const;
  void fill() const;
  void fill_row(int64_t row, std::span<const float> pattern) const;

  schedmp::Split split_;
  int64_t rows_ = 0;
  int64_t features_ = 0;
  int64_t classes_ = 0;
  mutable std::once_flag fill_once_;  // by the first read: reading must cost no more than a copy
  mutable std::vector<float> values_;
  mutable std::atomic<int64_t> held_ = 0;  // bytes of them
};

}  // namespace kerf::apps
