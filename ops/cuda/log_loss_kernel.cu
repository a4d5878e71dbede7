// LogLoss on a GPU: in double, for there are few segments.
#include <cmath>

#include "ops/cuda/bodies.cuh"
#include "ops/cuda/pieced_sum.cuh"
#include "ops/folded.h"

namespace kerf::ops::cuda {
namespace {

// The segments of rows, as [outer, segments, inner].
struct SegmentRows {
  const float* maximum;
  const float* log_sum;
  int64_t segments;
  int64_t inner;

  KERF_DEVICE int64_t at(int64_t row, int64_t s) const {
    return (row / inner * segments + s) * inner + row % inner;
  }
  KERF_DEVICE double most(int64_t row) const {
    double most = maximum[at(row, 0)];
    for (int64_t s = 1; s < segments; ++s) {
      const double other = maximum[at(row, s)];
      most = most < other ? other : most;
    }
    return most;
  }
  // The segment's share of the denominator, times exp(-most).
  KERF_DEVICE double weight(int64_t row, int64_t s, double most) const {
    return std::exp(static_cast<double>(maximum[at(row, s)]) - most +
                    static_cast<double>(log_sum[at(row, s)]));
  }
  KERF_DEVICE double sum(int64_t row, double most) const {
    double sum = 0;
    for (int64_t s = 0; s < segments; ++s) sum += weight(row, s, most);
    return sum;
  }
};

constexpr int64_t kLeastRows = 128;  // rows

struct RowOfLogLoss {
  SegmentRows rows;
  const float* picked;
  KERF_DEVICE double operator()(int64_t row) const {
    const double most = rows.most(row);
    return most - static_cast<double>(picked[row]) + std::log(rows.sum(row, most));
  }
};

KERF_DEVICE double upstream_of(const float* upstream, double normaliser) {
  return (upstream == nullptr ? 1.0 : static_cast<double>(*upstream)) / normaliser;
}

struct PickedGradient {
  const float* upstream;
  double normaliser;
  float* to;
  bool accumulate;
  KERF_DEVICE void operator()(int64_t i) const {
    put(to + i, accumulate, static_cast<float>(-upstream_of(upstream, normaliser)));
  }
};

// Index i is a row.
struct SegmentGradient {
  SegmentRows rows;
  const float* upstream;
  double normaliser;
  float* to;
  bool accumulate;
  KERF_DEVICE void operator()(int64_t i) const {
    const double most = rows.most(i);
    const double scale = upstream_of(upstream, normaliser) / rows.sum(i, most);
    for (int64_t s = 0; s < rows.segments; ++s)
      put(to + rows.at(i, s), accumulate, static_cast<float>(scale * rows.weight(i, s, most)));
  }
};

class LogLossKernel final : public PlainKernel {
 public:
  explicit LogLossKernel(const CudaWorkbench& bench) : bench_(bench) {}

  void forward(const Call& call) override {
    const Folded folded = fold(call.inputs[0].shape, 1);
    sum_in_pieces(bench_, folded.outer * folded.inner, kLeastRows,
                  RowOfLogLoss{rows_of(call, folded), call.inputs[2].f32()},
                  MeanTo{call.normaliser, call.outputs[0].f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* upstream =
        call.output_gradients.empty() ? nullptr : call.output_gradients[0].f32();
    const Folded folded = fold(call.inputs[0].shape, 1);
    for (const GradientTarget& target : targets)
      if (target.input == 2)
        for_each(bench_.queue(), target.to.elements(),
                 PickedGradient{upstream, call.normaliser, target.to.f32(), target.accumulate});
      else
        for_each(bench_.queue(), folded.outer * folded.inner,
                 SegmentGradient{rows_of(call, folded), upstream, call.normaliser, target.to.f32(),
                                 target.accumulate});
  }

 private:
  static SegmentRows rows_of(const Call& call, const Folded& folded) {
    return {call.inputs[0].f32(), call.inputs[1].f32(), folded.length, folded.inner};
  }

  const CudaWorkbench& bench_;
};

}  // namespace

KernelEntries register_log_loss() {
  return {{.op = "LogLoss", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<LogLossKernel>(workbench_of(site));
           }}};
}

}  // namespace kerf::ops::cuda
