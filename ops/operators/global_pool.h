// GlobalAveragePool, GlobalMaxPool (ONNX, opset 22) and GlobalLpPool: all of a channel of a sample
// comes down to one number.
//
//   X [N, C, ...]   Y [N, C, 1...]     or channels last (image_format.h)
//
// Iterations: samples, channels, the axes of space. An average is a sum, so space divides into
// partial sums; the largest number and a norm need all of it. GlobalMaxPool takes the first of
// equal numbers and reserves where it lies.
#pragma once

#include "ops/image_format.h"

namespace kerf::ops {

class GlobalPool final : public BoundOperator {
 public:
  enum class Kind : uint8_t { kMax, kAverage, kLp };
  GlobalPool(std::string_view name, Kind kind, const NodeFacts& facts);

  Kind kind() const { return kind_; }
  ImageFormat images() const { return format_; }
  int64_t positions() const { return positions_; }  // of a whole channel
  int64_t power() const { return power_; }          // GlobalLpPool's p

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override;
  size_t reserve_bytes(const LocalSpecs& local) const override;

 private:
  Kind kind_;
  ImageFormat format_;
  int64_t positions_ = 1;
  int64_t power_;
};

}  // namespace kerf::ops
