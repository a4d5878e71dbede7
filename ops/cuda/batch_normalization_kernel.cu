// BatchNormalization on a GPU, a channel to a block, by the formulas of the CPU's kernel: with
// k = scale / deviation, s = sum of dY and p = sum of dY times the normalised X over M elements,
//   dX = k * (dY - s/M - normalised * p/M)   where the statistics are X's own, else dX = k * dY,
//   dscale = p,   dB = s.
#include <cmath>

#include "ops/cuda/bodies.cuh"
#include "ops/cuda/channel_rows.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/operators/batch_normalization.h"

namespace kerf::ops::cuda {
namespace {

struct Normalise {
  using First = double;
  using Second = double;
  ChannelRows rows;
  const float* x;
  const float* scale;
  const float* bias;
  const float* given_mean;  // null: the statistics are X's own
  const float* given_variance;
  float epsilon;
  float* mean_output;  // null: nobody wants it
  float* variance_output;
  float* reserve;  // mean and inverse deviation; null in evaluation
  float* y;

  KERF_DEVICE int64_t length(int64_t) const { return rows.elements(); }
  KERF_DEVICE double count() const {
    return static_cast<double>(rows.elements() > 0 ? rows.elements() : 1);
  }
  KERF_DEVICE float mean(int64_t c, First sum) const {
    return given_mean != nullptr ? given_mean[c] : static_cast<float>(sum / count());
  }
  KERF_DEVICE float variance(int64_t c, Second squares) const {
    return given_mean != nullptr ? given_variance[c] : static_cast<float>(squares / count());
  }
  KERF_DEVICE float inverse(int64_t c, Second squares) const {
    return 1.0F / std::sqrt(variance(c, squares) + epsilon);
  }
  KERF_DEVICE First first(int64_t c, int64_t i) const {
    return given_mean != nullptr ? 0.0 : static_cast<double>(x[rows.at(c, i)]);
  }
  KERF_DEVICE static First first_zero() { return 0; }
  KERF_DEVICE static First join_first(First a, First b) { return a + b; }
  KERF_DEVICE Second second(int64_t c, int64_t i, First sum) const {
    if (given_mean != nullptr) return 0;
    const float apart = x[rows.at(c, i)] - mean(c, sum);
    return static_cast<double>(apart * apart);
  }
  KERF_DEVICE static Second second_zero() { return 0; }
  KERF_DEVICE static Second join_second(Second a, Second b) { return a + b; }
  KERF_DEVICE void finish(int64_t c, First sum, Second squares) const {
    if (mean_output != nullptr) mean_output[c] = mean(c, sum);
    if (variance_output != nullptr) variance_output[c] = variance(c, squares);
    if (reserve == nullptr) return;
    reserve[c] = mean(c, sum);
    reserve[rows.channels + c] = inverse(c, squares);
  }
  KERF_DEVICE void each(int64_t c, int64_t i, First sum, Second squares) const {
    const int64_t at = rows.at(c, i);
    y[at] = (x[at] - mean(c, sum)) * (scale[c] * inverse(c, squares)) + bias[c];
  }
};

// What all gradients follow from.
struct GradientSums {
  double sum;      // of dY
  double product;  // of dY times the centred X
};

struct NormaliseGradient {
  using Value = GradientSums;
  ChannelRows rows;
  const float* x;
  const float* scale;
  const float* reserve;
  const float* dy;       // null: 0
  const float* of_mean;  // what flows into outputs 1 and 2; null: 0
  const float* of_variance;
  bool own;       // the statistics are X's own
  float* handed;  // the sums, for W; null: nobody wants them
  float* to[5];   // by input; null: not asked for

  KERF_DEVICE int64_t length(int64_t) const { return rows.elements(); }
  KERF_DEVICE Value term(int64_t c, int64_t i) const {
    if (dy == nullptr) return {0, 0};
    const int64_t at = rows.at(c, i);
    return {static_cast<double>(dy[at]), static_cast<double>(dy[at] * (x[at] - reserve[c]))};
  }
  KERF_DEVICE static Value zero() { return {0, 0}; }
  KERF_DEVICE static Value join(const Value& a, const Value& b) {
    return {a.sum + b.sum, a.product + b.product};
  }

  KERF_DEVICE double inverse(int64_t c) const {
    return static_cast<double>(reserve[rows.channels + c]);
  }
  KERF_DEVICE void finish(int64_t c, const Value& sums) const {
    const double product = sums.product * inverse(c);
    const double slope = static_cast<double>(scale[c]) * inverse(c);
    if (handed != nullptr) {
      handed[c] = static_cast<float>(sums.sum);
      handed[rows.channels + c] = static_cast<float>(product);
    }
    if (to[1] != nullptr) to[1][c] = static_cast<float>(product);
    if (to[2] != nullptr) to[2][c] = static_cast<float>(sums.sum);
    if (to[3] != nullptr) to[3][c] = static_cast<float>(-slope * sums.sum);
    if (to[4] != nullptr) to[4][c] = static_cast<float>(-0.5 * slope * inverse(c) * product);
  }
  KERF_DEVICE static double given(const float* gradient, int64_t c) {
    return gradient == nullptr ? 0 : static_cast<double>(gradient[c]);
  }
  KERF_DEVICE void each(int64_t c, int64_t i, const Value& sums) const {
    if (to[0] == nullptr) return;
    const int64_t at = rows.at(c, i);
    const float direct = dy == nullptr ? 0.0F : dy[at] * (scale[c] * reserve[rows.channels + c]);
    if (!own) {
      to[0][at] = direct;
      return;
    }
    const auto count = static_cast<double>(rows.elements());
    const double k = static_cast<double>(scale[c]) * inverse(c);
    const auto shift = static_cast<float>((given(of_mean, c) - k * sums.sum) / count);
    const auto slope = static_cast<float>(
        (2 * given(of_variance, c) - k * sums.product * inverse(c) * inverse(c)) / count);
    to[0][at] = direct + ((x[at] - reserve[c]) * slope + shift);
  }
};

class BatchNormalizationKernel final : public Kernel {
 public:
  explicit BatchNormalizationKernel(const KernelSite& site)
      : queue_(queue_of(site)), op_(site.as<BatchNormalization>()) {}

  void forward(const Call& call) override {
    const bool own = op_.training_mode() && call.training;
    const auto output = [&](size_t i) {
      return call.outputs.size() > i ? call.outputs[i].f32() : nullptr;
    };
    const ChannelRows rows = channel_rows(call.inputs[0].shape, op_.images());
    reduce_rows_twice(
        queue_, rows.channels,
        Normalise{rows, call.inputs[0].f32(), call.inputs[1].f32(), call.inputs[2].f32(),
                  own ? nullptr : call.inputs[3].f32(), own ? nullptr : call.inputs[4].f32(),
                  op_.epsilon(), output(1), output(2),
                  reinterpret_cast<float*>(call.reserve.data()), call.outputs[0].f32()});
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const auto given = [&](size_t i) {
      return call.output_gradients.size() > i ? call.output_gradients[i].f32() : nullptr;
    };
    const ChannelRows rows = channel_rows(call.inputs[0].shape, op_.images());
    NormaliseGradient body{rows,
                           call.inputs[0].f32(),
                           call.inputs[1].f32(),
                           reinterpret_cast<const float*>(call.reserve.data()),
                           given(0),
                           given(1),
                           given(2),
                           op_.training_mode() && call.training,
                           reinterpret_cast<float*>(call.handed.data()),
                           {}};
    for (const GradientTarget& target : targets) body.to[target.input] = target.to.f32();
    reduce_rows_then_each(queue_, rows.channels, body);
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const int64_t channels = target.to.elements();
      const auto* from =
          reinterpret_cast<const float*>(call.handed.data()) + (target.input == 1 ? channels : 0);
      copy_or_add(queue_, from, channels, target.to.f32(), target.accumulate);
    }
  }

 private:
  const Queue& queue_;
  const BatchNormalization& op_;
};

}  // namespace

KernelEntries register_batch_normalization() {
  return {
      {.op = "BatchNormalization", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
         return std::make_unique<BatchNormalizationKernel>(site);
       }}};
}

}  // namespace kerf::ops::cuda
