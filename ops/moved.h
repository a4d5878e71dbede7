// Slice, Pad and Compress: each axis of the output is made of stretches of the input's axis,
// forwards, backwards, by steps, or of one index again and again; what is in none of them is
// filled.
//
// An axis whose one stretch goes by single steps divides: its iterations are the indices that
// either side has, of which input and output are stretches.
#pragma once

#include <string>

#include "ops/image_format.h"

namespace kerf::ops {

// output[to + i] = input[from + i * step], for i in [0, count).
struct AxisMove {
  int64_t from = 0;
  int64_t to = 0;
  int64_t count = 0;
  int64_t step = 1;
};

// What becomes of one axis. Without moves it stays as it is.
struct MovedAxis {
  std::vector<AxisMove> moves = {};
  int64_t extent = 0;          // of the output
  std::string undivided = {};  // why it stays whole; empty: one move by single steps
};

class Moved final : public BoundOperator {
 public:
  // `fill` is a number of the input's type, for what no move reaches.
  Moved(std::string_view name, const NodeFacts& facts, std::vector<MovedAxis> axes,
        double fill = 0);

  const std::vector<MovedAxis>& axes() const { return axes_; }
  // The moves of an axis between the local tensors of the calls that compute these iterations; none
  // where it stays as it is.
  std::vector<AxisMove> local_moves(int axis, const IndexSet& iterations) const;
  double fill() const { return fill_; }

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return {}; }

 private:
  std::vector<MovedAxis> axes_;
  double fill_;
};

// The attribute `axes` of a node that works on some, or the first `count` axes without it, each
// once and not negative. Throws Error{kUsage}.
std::vector<int> some_axes(std::string_view op, const NodeFacts& facts, size_t count);
// The node with its image's channels last and these, in ONNX's order, as its attribute `axes`.
std::optional<ChannelsLast> some_axes_channels_last(const NodeFacts& facts,
                                                    const std::vector<int>& axes);

}  // namespace kerf::ops
