// SegmentSoftmax on the CPU. With l the logarithm of the whole sum and w_s the share that segment s
// has of it, and t = sum over the line, as far as it is here, of dY * Y (of dY, for logarithms):
//   dX = dY * Y (dY),   dmaximum_s = dlog_sum_s = -t * w_s.
#include <algorithm>
#include <cmath>

#include "ops/folded.h"
#include "ops/kernel.h"
#include "ops/operators/segment_softmax.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

class SegmentSoftmaxKernel final : public PlainKernel {
 public:
  explicit SegmentSoftmaxKernel(const SegmentSoftmax& op)
      : axis_(op.axis()), logarithm_(op.logarithm()) {}

  void forward(const Call& call) override {
    const Folded f = fold(call.inputs[0].shape, axis_);
    for_lines(call, f, [&](const Line& line) {
      const float* x = call.inputs[0].f32() + line.first;
      float* y = call.outputs[0].f32() + line.first;
      const Sum sum = sum_of(call, f, line);
      for (int64_t j = 0; j < f.length; ++j) {
        const double below = (double{x[j * f.inner]} - double{sum.most}) - sum.logarithm;
        y[j * f.inner] = static_cast<float>(logarithm_ ? below : std::exp(below));
      }
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const Folded f = fold(call.output_gradients[0].shape, axis_);
    for (const GradientTarget& target : targets)
      for_lines(call, f, [&](const Line& line) {
        if (target.input == 0)
          x_gradient(call, target, f, line);
        else
          segment_gradient(call, target, f, line);
      });
  }

 private:
  struct Line {
    int64_t first = 0;     // index of its first element in X
    int64_t segments = 0;  // and in maximum
  };
  // Of the exponentials of a whole line: the logarithm is of their sum beside the largest.
  struct Sum {
    float most = 0;
    double logarithm = 0;
  };

  int64_t segments_of(const Call& call) const { return call.inputs[1].shape[axis_]; }

  template <class Work>
  void for_lines(const Call& call, const Folded& f, const Work& work) const {
    const int64_t segments = segments_of(call);
    simd::parallel_pieces(
        f.outer * f.inner, 1 + simd::kLeastElements / std::max<int64_t>(f.length, 1),
        [&](int64_t begin, int64_t end) {
          for (int64_t line = begin; line < end; ++line) {
            const int64_t outer = line / f.inner;
            const int64_t inner = line % f.inner;
            work(Line{outer * f.length * f.inner + inner, outer * segments * f.inner + inner});
          }
        });
  }

  Sum sum_of(const Call& call, const Folded& f, const Line& line) const {
    const float* most = call.inputs[1].f32() + line.segments;
    const float* log_sum = call.inputs[2].f32() + line.segments;
    Sum result{most[0], 0};
    const int64_t segments = segments_of(call);
    for (int64_t s = 1; s < segments; ++s) result.most = std::max(result.most, most[s * f.inner]);
    double sum = 0;
    for (int64_t s = 0; s < segments; ++s)
      sum += std::exp((double{most[s * f.inner]} - double{result.most}) +
                      double{log_sum[s * f.inner]});
    result.logarithm = std::log(sum);
    return result;
  }

  static void put(const GradientTarget& target, int64_t at, float gradient) {
    float& entry = target.to.f32()[at];
    entry = target.accumulate ? entry + gradient : gradient;
  }

  float given(const Call& call, int64_t at) const {
    const float dy = call.output_gradients[0].f32()[at];
    return logarithm_ ? dy : dy * call.outputs[0].f32()[at];
  }

  void x_gradient(const Call& call, const GradientTarget& target, const Folded& f,
                  const Line& line) const {
    for (int64_t j = 0; j < f.length; ++j) {
      const int64_t at = line.first + j * f.inner;
      put(target, at, given(call, at));
    }
  }

  void segment_gradient(const Call& call, const GradientTarget& target, const Folded& f,
                        const Line& line) const {
    double sum = 0;
    for (int64_t j = 0; j < f.length; ++j) sum += double{given(call, line.first + j * f.inner)};
    const Sum whole = sum_of(call, f, line);
    for (int64_t s = 0; s < segments_of(call); ++s) {
      const int64_t at = line.segments + s * f.inner;
      const double share = std::exp((double{call.inputs[1].f32()[at]} - double{whole.most}) +
                                    double{call.inputs[2].f32()[at]} - whole.logarithm);
      put(target, at, static_cast<float>(-sum * share));
    }
  }

  int axis_;
  bool logarithm_;
};

}  // namespace

KernelEntries register_segment_softmax() {
  return {{.op = "SegmentSoftmax", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<SegmentSoftmaxKernel>(site.as<SegmentSoftmax>());
           }}};
}

}  // namespace kerf::ops::cpu
