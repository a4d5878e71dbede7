// Rows that a classifier learns from, each times its label, -1 or 1, one behind the other in the
// order in which they are worked on. Values that are all floats are kept as floats, at half the
// memory, without loss. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/data/sparse_columns.h"

namespace kerf::apps {

class TrainingRows {
 public:
  TrainingRows() = default;
  // `rows`: the matrix by rows. Of each in `order` its entries times its sign, and behind them, as
  // feature rows.rows, its sign times `bias` unless that is 0.
  TrainingRows(const SparseColumns& rows, const std::vector<double>& signs,
               std::span<const int64_t> order, double bias);

  int64_t count() const { return std::ssize(squares_); }
  int64_t entries() const { return begins_.back(); }
  // |x|^2
  double squares(int64_t row) const { return squares_[static_cast<size_t>(row)]; }
  double product(int64_t row, const std::vector<double>& weights) const;
  // weights += factor x row.
  void add(int64_t row, double factor, std::vector<double>& weights) const;

 private:
  template <class Value>
  void take(const SparseColumns& rows, const std::vector<double>& signs,
            std::span<const int64_t> order, double bias, std::vector<Value>& values);

  std::vector<int64_t> begins_ = {0};  // as SparseColumns has them
  std::vector<int32_t> features_;
  std::vector<float> narrow_;  // one of the two is empty
  std::vector<double> wide_;
  std::vector<double> squares_;
};

}  // namespace kerf::apps
