// LRN on the CPU. With s = bias + factor * sum of x^2 over the window of c,
//   y_c = x_c * s_c^-beta,
//   dx_j = dy_j * s_j^-beta - 2 * beta * factor * x_j * sum over c whose window has j of
//          dy_c * x_c * s_c^(-beta - 1).
#include <cmath>
#include <utility>

#include "ops/activation_kernel.h"
#include "ops/operators/lrn.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// What is looked at together: neighbouring positions, or channels where those lie side by side.
constexpr int64_t kLrnBlock = 256;

struct LrnRule {
  float bias = 1;
  float factor = 0;
  float beta = 0.75F;
};

KERF_CLONES void add_squares(const float* x, int64_t count, float* sums) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sums[i] += x[i] * x[i];
}

// From sums of squares to s, and s^-beta.
KERF_CLONES void lrn_divisors(const LrnRule& rule, int64_t count, float* sums, float* powers) {
  const float bias = rule.bias;
  const float factor = rule.factor;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sums[i] = bias + factor * sums[i];
  if (rule.beta == 0.75F) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float root = __builtin_sqrtf(sums[i]);
      powers[i] = 1.0F / (root * __builtin_sqrtf(root));
    }
  } else if (rule.beta == 0.5F) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) powers[i] = 1.0F / __builtin_sqrtf(sums[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) powers[i] = std::pow(sums[i], -rule.beta);
  }
}

KERF_CLONES void lrn_scale(const float* x, const float* powers, int64_t count, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] * powers[i];
}

// What a channel gets of its own, and what its window's get of it.
KERF_CLONES void lrn_own_gradient(const float* x, const float* dy, const float* sums, float* powers,
                                  float slope, int64_t count, float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    dx[i] += dy[i] * powers[i];
    powers[i] = slope * dy[i] * x[i] * powers[i] / sums[i];
  }
}

KERF_CLONES void lrn_window_gradient(const float* x, const float* shares, int64_t count,
                                     float* dx) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] -= x[i] * shares[i];
}

class LrnKernel final : public ActivationKernel {
 public:
  explicit LrnKernel(const KernelSite& site)
      : ActivationKernel(site.op),
        op_(site.as<Lrn>()),
        rule_{op_.bias(), op_.factor(), op_.beta()} {
    if (site.iterations.empty()) return;
    const int64_t first = site.iterations.axes[1].ranges(op_.channels()).front().begin;
    ahead_ = std::min(first, op_.before());
  }

  void forward(const Call& call) override {
    const Places p = places(call.inputs[0].shape, call.outputs[0].shape);
    const float* x = call.inputs[0].f32();
    for_blocks_of(p, [&](int64_t in, int64_t out, const Block& block) {
      float sums[kLrnBlock];
      float powers[kLrnBlock];
      divisors(p, x + in, block, sums, powers);
      lrn_scale(x + in + block.own, powers, block.count, call.outputs[0].f32() + out);
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* x = call.inputs[0].f32();
    const float* dy = call.output_gradients[0].f32();
    const float slope = 2 * rule_.beta * rule_.factor;
    for (const GradientTarget& target : targets) {
      const Places p = places(target.to.shape, call.output_gradients[0].shape);
      float* dx = target.to.f32();
      std::fill_n(dx, target.to.elements(), 0.0F);
      for_blocks_of(p, [&](int64_t in, int64_t out, const Block& block) {
        float sums[kLrnBlock];
        float powers[kLrnBlock];
        divisors(p, x + in, block, sums, powers);
        lrn_own_gradient(x + in + block.own, dy + out, sums, powers, slope, block.count,
                         dx + in + block.own);
        for_window(p, block, [&](int64_t at, int64_t from, int64_t count) {
          lrn_window_gradient(x + in + at, powers + from, count, dx + in + at);
        });
      });
    }
  }

 private:
  // Local tensors as [outer, channels, inner].
  struct Places {
    int64_t outer = 1;
    int64_t in_channels = 0;
    int64_t out_channels = 0;
    int64_t inner = 1;
  };
  // A stretch of outputs of one line of channels: of one channel, or side by side.
  struct Block {
    int64_t channel = 0;  // of the first of them, among the input's
    int64_t count = 0;
    int64_t own = 0;  // of the same elements in the input, behind the line's begin
  };

  Places places(const Shape& x, const Shape& y) const {
    const Shape from = onnx_shape(op_.images(), x);
    const Shape to = onnx_shape(op_.images(), y);
    Places p{from[0], from[1], to[1]};
    for (int i = 2; i < from.rank(); ++i) p.inner *= from[i];
    if (op_.images() == ImageFormat::kChannelsLast) p.outer *= std::exchange(p.inner, 1);
    return p;
  }

  // Calls work(the input line's begin, the output's place, block). Threads share no line.
  template <class Work>
  void for_blocks_of(const Places& p, const Work& work) const {
    const int64_t line = p.in_channels * p.inner;
    if (p.outer * line == 0) return;
    simd::parallel_pieces(p.outer, 1 + simd::kLeastElements / line,
                          [&](int64_t begin, int64_t end) {
                            for (int64_t n = begin; n < end; ++n)
                              for_blocks_of_line(p, [&](int64_t at, const Block& block) {
                                work(n * line, n * p.out_channels * p.inner + at, block);
                              });
                          });
  }

  template <class Work>
  void for_blocks_of_line(const Places& p, const Work& work) const {
    if (p.inner == 1) {
      for (int64_t c = 0; c < p.out_channels; c += kLrnBlock)
        work(c, Block{c + ahead_, std::min(kLrnBlock, p.out_channels - c), c + ahead_});
      return;
    }
    // Positions outside, so that a block's channels stay in the cache.
    for (int64_t i = 0; i < p.inner; i += kLrnBlock)
      for (int64_t c = 0; c < p.out_channels; ++c)
        work(c * p.inner + i,
             Block{c + ahead_, std::min(kLrnBlock, p.inner - i), (c + ahead_) * p.inner + i});
  }

  // Calls visit(at, from, count): `count` elements of the line at `at` are in the windows of the
  // block's outputs from number `from` on.
  template <class Visit>
  void for_window(const Places& p, const Block& block, const Visit& visit) const {
    const int64_t last = block.channel + (p.inner > 1 ? 0 : block.count - 1);
    const int64_t lowest = std::max(-op_.before(), -last);
    const int64_t highest = std::min(op_.behind(), p.in_channels - 1 - block.channel);
    for (int64_t shift = lowest; shift <= highest; ++shift) {
      if (p.inner > 1) {
        visit(block.own + shift * p.inner, 0, block.count);
        continue;
      }
      const int64_t from = std::max<int64_t>(0, -(block.channel + shift));
      const int64_t to = std::min(block.count, p.in_channels - (block.channel + shift));
      if (from < to) visit(block.own + shift + from, from, to - from);
    }
  }

  void divisors(const Places& p, const float* line, const Block& block, float* sums,
                float* powers) const {
    std::fill_n(sums, block.count, 0.0F);
    for_window(p, block, [&](int64_t at, int64_t from, int64_t count) {
      add_squares(line + at, count, sums + from);
    });
    lrn_divisors(rule_, block.count, sums, powers);
  }

  const Lrn& op_;
  LrnRule rule_;
  int64_t ahead_ = 0;  // channels of this part's input before its first output
};

}  // namespace

KernelEntries register_lrn() {
  return {{"LRN", [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<LrnKernel>(site);
           }}};
}

}  // namespace kerf::ops::cpu
