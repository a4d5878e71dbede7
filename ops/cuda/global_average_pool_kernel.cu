// GlobalAveragePool on a GPU: a row of the work is a channel of a sample.
#include "ops/activation_kernel.h"
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/operators/global_pool.h"

namespace kerf::ops::cuda {
namespace {

// A tensor [outer, positions, inner] in memory, whose rows are outer x inner: `inner` is 1 where
// channels are lines, and their number where they lie last.
struct PooledRows {
  int64_t rows;
  int64_t positions;
  int64_t inner;
  KERF_DEVICE int64_t at(int64_t row, int64_t i) const {
    return (row / inner * positions + i) * inner + row % inner;
  }
  KERF_DEVICE int64_t row(int64_t element) const {
    return element / inner / positions * inner + element % inner;
  }
};

PooledRows pooled_rows(ImageFormat format, const Shape& stored) {
  const Shape x = onnx_shape(format, stored);
  PooledRows p{x[0] * x[1], 1, format == ImageFormat::kChannelsLast ? x[1] : 1};
  for (int axis = 2; axis < x.rank(); ++axis) p.positions *= x[axis];
  return p;
}

struct AverageRow : Adding<float> {
  PooledRows places;
  float share;
  const float* x;
  float* y;
  KERF_DEVICE int64_t length(int64_t) const { return places.positions; }
  KERF_DEVICE float term(int64_t row, int64_t i) const { return x[places.at(row, i)]; }
  KERF_DEVICE void finish(int64_t row, float sum) const { y[row] = sum * share; }
};

struct SpreadRow {
  PooledRows places;
  float share;
  const float* dy;
  float* dx;
  KERF_DEVICE void operator()(int64_t i) const { dx[i] = dy[places.row(i)] * share; }
};

class GlobalAveragePoolKernel final : public ActivationKernel {
 public:
  explicit GlobalAveragePoolKernel(const KernelSite& site)
      : ActivationKernel(site.op),
        queue_(queue_of(site)),
        format_(site.as<GlobalPool>().images()),
        share_(1.0F / static_cast<float>(site.as<GlobalPool>().positions())) {}

  void forward(const Call& call) override {
    const PooledRows places = pooled_rows(format_, call.inputs[0].shape);
    reduce_rows(queue_, places.rows,
                AverageRow{{}, places, share_, call.inputs[0].f32(), call.outputs[0].f32()});
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      for_each(queue_, target.to.elements(),
               SpreadRow{pooled_rows(format_, target.to.shape), share_,
                         call.output_gradients[0].f32(), target.to.f32()});
  }

 private:
  const Queue& queue_;
  ImageFormat format_;
  float share_;  // of a position of the whole channel
};

}  // namespace

KernelEntries register_global_average_pool() {
  return {
      {.op = "GlobalAveragePool", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
         return std::make_unique<GlobalAveragePoolKernel>(site);
       }}};
}

}  // namespace kerf::ops::cuda
