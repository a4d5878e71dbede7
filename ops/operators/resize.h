// Resize (ONNX, opset 19): every axis stretched or shrunk, output indices seen as places of the
// input.
//
//   Y = X resampled; along an axis of extent n and scale s it has floor(s * n) indices, or `sizes`
//
// Attributes: mode nearest, linear or cubic; scales or sizes (of `axes`, default all), which are
// inputs of ONNX; coordinate_transformation_mode, nearest_mode, cubic_coeff_a, exclude_outside,
// antialias, keep_aspect_ratio_policy; of tf_crop_and_resize roi and extrapolation_value. All modes
// are linear maps of each axis by itself, so that the gradient is that of their weights.
//
// Iterations: the axes of Y. Those that keep their extent divide, the batch among them; the others
// stay whole.
#pragma once

#include "ops/operator.h"

namespace kerf::ops {

// What index `o` of a resampled axis is made of: weights[first[o]], ... times the input's indices.
struct ResampledAxis {
  int axis = 0;
  int64_t input = 0;
  int64_t output = 0;
  std::vector<int64_t> first;  // output + 1 of them; an index outside of a crop has no weights
  std::vector<int64_t> indices;
  std::vector<float> weights;
  int64_t taps = 0;  // of each, where all have as many
};

class Resize final : public BoundOperator {
 public:
  explicit Resize(const NodeFacts& facts);

  // Those that change, the last first.
  const std::vector<ResampledAxis>& resampled() const { return resampled_; }

  float outside() const { return outside_; }  // extrapolation_value

  Cost cost(const LocalSpecs& local) const override;
  BackwardReads backward_reads() const override { return {}; }

 private:
  float outside_;
  std::vector<ResampledAxis> resampled_;
};

}  // namespace kerf::ops
