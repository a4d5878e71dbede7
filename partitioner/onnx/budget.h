// How much an import may compute, and read of weights: constants of a file are a few times what the
// file has, so that a small one from a stranger takes neither much memory nor long. Used by one
// thread.
#pragma once

#include <cstddef>

#include "runtime/error.h"
#include "runtime/format.h"

namespace kerf::partitioner::onnx {

class Budget {
 public:
  static constexpr size_t kMostAtOnce = size_t{256} << 20;  // bytes of one constant

  // `stored`: bytes of weights that the file has, however many tensors claim them.
  explicit Budget(size_t stored)
      : bytes_left_(kFreeBytes + kTimesStored * stored), reads_left_(bytes_left_) {}

  // Operands and results of a node. Throws Error{kUsage} where it is too much with what there was.
  void take(size_t bytes, double flops) {
    if (bytes > bytes_left_)
      throw Error(ErrorCode::kUsage,
                  format("it would compute with constants of {}, and {} are left for all of them: "
                         "give the file's constants as initializers",
                         human_bytes(static_cast<double>(bytes)),
                         human_bytes(static_cast<double>(bytes_left_))));
    if (!(flops <= flops_left_))
      throw Error(
          ErrorCode::kUsage,
          format("it takes {:.3g} operations to compute a constant, and {:.3g} are left for "
                 "all of them: give it as an initializer",
                 flops, flops_left_));
    bytes_left_ -= bytes;
    reads_left_ += bytes;  // what was computed may be looked at
    flops_left_ -= flops;
  }

  // Numbers of weights that are looked at, to know what they are. Throws Error{kUsage} likewise.
  void look_at(size_t bytes) {
    if (bytes > reads_left_)
      throw Error(ErrorCode::kUsage,
                  "its weights are many times as large as its files, which they share: give each "
                  "bytes of its own");
    reads_left_ -= bytes;
  }

 private:
  static constexpr size_t kFreeBytes = size_t{512} << 20;
  static constexpr size_t kTimesStored = 8;

  size_t bytes_left_;
  size_t reads_left_;
  double flops_left_ = 5e10;  // some seconds
};

}  // namespace kerf::partitioner::onnx
