// GlobalAveragePool, GlobalMaxPool and GlobalLpPool on the CPU.
//
// A channel's numbers are `inner` apart: 1 in ONNX's order, where channels are lines; as many as
// there are channels where those lie last.
#include <cmath>

#include "ops/activation_kernel.h"
#include "ops/operators/global_pool.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// Local tensors as [lines, positions, inner].
struct GlobalPlaces {
  int64_t lines = 0;
  int64_t positions = 0;
  int64_t inner = 1;
  int64_t line() const { return positions * inner; }
};

GlobalPlaces global_places(ImageFormat images, const Shape& stored) {
  const Shape x = onnx_shape(images, stored);
  GlobalPlaces p{x[0] * x[1], 1, 1};
  for (int i = 2; i < x.rank(); ++i) p.positions *= x[i];
  if (images == ImageFormat::kChannelsLast) p = {x[0], p.positions, x[1]};
  return p;
}

KERF_CLONES void sum_side_by_side(const float* x, const GlobalPlaces& p, float scale, float* y) {
  for (int64_t c = 0; c < p.inner; ++c) y[c] = 0;
  for (int64_t i = 0; i < p.positions; ++i) {
    const float* from = x + i * p.inner;
#pragma omp simd
    for (int64_t c = 0; c < p.inner; ++c) y[c] += from[c];
  }
  for (int64_t c = 0; c < p.inner; ++c) y[c] *= scale;
}

KERF_CLONES void spread_side_by_side(const float* dy, const GlobalPlaces& p, float scale,
                                     float* dx) {
  for (int64_t i = 0; i < p.positions; ++i) {
    float* to = dx + i * p.inner;
#pragma omp simd
    for (int64_t c = 0; c < p.inner; ++c) to[c] = dy[c] * scale;
  }
}

class GlobalPoolKernel final : public ActivationKernel {
 public:
  explicit GlobalPoolKernel(const KernelSite& site)
      : ActivationKernel(site.op), op_(site.as<GlobalPool>()) {}

  void forward(const Call& call) override {
    const GlobalPlaces p = global_places(op_.images(), call.inputs[0].shape);
    const float* x = call.inputs[0].f32();
    float* y = call.outputs[0].f32();
    auto* taken = reinterpret_cast<int64_t*>(call.reserve.data());
    for_lines(p, [&](int64_t line) {
      const float* from = x + line * p.line();
      float* to = y + line * p.inner;
      if (op_.kind() == GlobalPool::Kind::kAverage) return average(p, from, to);
      for (int64_t c = 0; c < p.inner; ++c) {
        if (op_.kind() == GlobalPool::Kind::kLp) {
          to[c] = norm(p, from + c);
          continue;
        }
        const int64_t at = largest(p, from + c);
        to[c] = from[at + c];
        if (taken != nullptr) taken[line * p.inner + c] = at;
      }
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* dy = call.output_gradients[0].f32();
    for (const GradientTarget& target : targets) {
      const GlobalPlaces p = global_places(op_.images(), target.to.shape);
      for_lines(p, [&](int64_t line) {
        float* to = target.to.f32() + line * p.line();
        const float* from = dy + line * p.inner;
        if (op_.kind() == GlobalPool::Kind::kAverage) return spread(p, from, to);
        std::fill_n(to, p.line(), 0.0F);
        for (int64_t c = 0; c < p.inner; ++c)
          if (op_.kind() == GlobalPool::Kind::kMax)
            to[reinterpret_cast<const int64_t*>(call.reserve.data())[line * p.inner + c] + c] =
                from[c];
          else
            norm_gradient(p, call.inputs[0].f32() + line * p.line() + c,
                          call.outputs[0].f32()[line * p.inner + c], from[c], to + c);
      });
    }
  }

 private:
  template <class Work>
  static void for_lines(const GlobalPlaces& p, const Work& work) {
    if (p.lines * p.line() == 0) return;
    simd::parallel_pieces(p.lines, 1 + simd::kLeastElements / p.line(),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t line = begin; line < end; ++line) work(line);
                          });
  }

  float share() const { return 1.0F / static_cast<float>(op_.positions()); }

  void average(const GlobalPlaces& p, const float* x, float* y) const {
    if (p.inner == 1 && op_.images() == ImageFormat::kChannelsFirst)
      *y = simd::sum_of(x, p.positions) * share();
    else
      sum_side_by_side(x, p, share(), y);
  }

  void spread(const GlobalPlaces& p, const float* dy, float* dx) const {
    if (p.inner == 1)
      std::fill_n(dx, p.positions, *dy * share());
    else
      spread_side_by_side(dy, p, share(), dx);
  }

  // Its place behind `x`. NaN wins.
  static int64_t largest(const GlobalPlaces& p, const float* x) {
    int64_t best = 0;
    for (int64_t at = p.inner; at < p.line(); at += p.inner)
      if (x[at] > x[best] || x[at] != x[at]) best = at;
    return best;
  }

  float norm(const GlobalPlaces& p, const float* x) const {
    const auto power = static_cast<float>(op_.power());
    float sum = 0;
    for (int64_t at = 0; at < p.line(); at += p.inner) sum += std::pow(std::abs(x[at]), power);
    return std::pow(sum, 1.0F / power);
  }

  // d y / d x = sign(x) * (|x| / y)^(p-1); 0 where y is.
  void norm_gradient(const GlobalPlaces& p, const float* x, float y, float dy, float* dx) const {
    if (y == 0) return;
    const auto power = static_cast<float>(op_.power());
    for (int64_t at = 0; at < p.line(); at += p.inner)
      if (x[at] != 0)
        dx[at] = std::copysign(1.0F, x[at]) * dy * std::pow(std::abs(x[at]) / y, power - 1);
  }

  const GlobalPool& op_;
};

std::unique_ptr<Kernel> make_global_pool(const KernelSite& site) {
  return std::make_unique<GlobalPoolKernel>(site);
}

}  // namespace

KernelEntries register_global_pool() {
  return {{"GlobalAveragePool", make_global_pool},
          {"GlobalMaxPool", make_global_pool},
          {"GlobalLpPool", make_global_pool}};
}

}  // namespace kerf::ops::cpu
