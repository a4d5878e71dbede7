// The rows of an array of NumPy, one for each index of its first axis, as the numbers that models
// have. They stay where the source has them, and are read in pieces. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "apps/data/npy.h"
#include "ops/tensor.h"

namespace kerf::apps {

class ArrayColumn {
 public:
  // Throws Error{kUsage} that names the source unless there is an axis of rows, and something in
  // each.
  explicit ArrayColumn(std::shared_ptr<const ByteSource> source);

  const ByteSource& source() const { return array_.source(); }
  ops::DType stored() const { return array_.header().dtype; }
  int64_t rows() const { return array_.header().extents[0]; }
  int64_t elements() const { return elements_; }  // of a row
  ops::Shape shape() const;                       // [N, ...]
  // Row first + rows[i] to row i of `to`, which is of the type stored, or of float32 or int64,
  // which others become by value. Rows that follow each other are read at once.
  void read(std::span<const int64_t> rows, int64_t first, const ops::TensorView& to) const;

 private:
  NpyArray array_;
  int64_t elements_ = 1;
};

}  // namespace kerf::apps
