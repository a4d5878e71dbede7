// SegmentLogSumExp on the CPU: with m the segment's maximum, log_sum = log(sum of exp(s - m)). The
// gradient of m goes to the first entry that equals it, that of log_sum is softmax minus the same.
#include <cmath>

#include "ops/folded.h"
#include "ops/kernel.h"
#include "ops/operators/segment_log_sum_exp.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

class SegmentLogSumExpKernel final : public PlainKernel {
 public:
  explicit SegmentLogSumExpKernel(const KernelSite& site)
      : axis_(site.as<SegmentLogSumExp>().axis()) {
    const auto axis = static_cast<size_t>(axis_);
    const auto& boundaries = site.as<SegmentLogSumExp>().boundaries();
    const auto segments = static_cast<int64_t>(boundaries.size()) - 1;
    int64_t begin = 0;
    for (const Range& range : site.iterations.axes[axis].ranges(segments))
      for (int64_t s = range.begin; s < range.end; ++s) {
        const int64_t size =
            boundaries[static_cast<size_t>(s) + 1] - boundaries[static_cast<size_t>(s)];
        segments_.push_back({begin, begin + size});
        begin += size;
      }
  }

  void forward(const Call& call) override {
    const Folded folded = fold(call.inputs[0].shape, axis_);
    lines(folded, [&](const Line& line) {
      const float* s = call.inputs[0].f32() + line.scores;
      float most = s[0];
      for (int64_t c = 1; c < line.classes; ++c) most = std::max(most, s[c * folded.inner]);
      const float shift = std::isfinite(most) ? most : 0;  // of nothing but -inf
      double sum = 0;
      for (int64_t c = 0; c < line.classes; ++c) sum += std::exp(s[c * folded.inner] - shift);
      call.outputs[0].f32()[line.segment] = shift;
      call.outputs[1].f32()[line.segment] = static_cast<float>(std::log(sum));
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const Folded folded = fold(target.to.shape, axis_);
      lines(folded, [&](const Line& line) { line_gradient(call, target, folded.inner, line); });
    }
  }

 private:
  // One segment of one row.
  struct Line {
    int64_t scores = 0;  // offset of its first score
    int64_t classes = 0;
    int64_t segment = 0;  // offset in the outputs
  };

  template <class Work>
  void lines(const Folded& scores, const Work& work) const {
    const auto count = static_cast<int64_t>(segments_.size());
    if (scores.length == 0) return;
    simd::parallel_pieces(
        scores.outer * scores.inner, 1 + 4096 / scores.length, [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end; ++row)
            for (int64_t s = 0; s < count; ++s) {
              const Range& segment = segments_[static_cast<size_t>(s)];
              const int64_t outer = row / scores.inner;
              const int64_t inner = row % scores.inner;
              work(Line{(outer * scores.length + segment.begin) * scores.inner + inner,
                        segment.size(), (outer * count + s) * scores.inner + inner});
            }
        });
  }

  static float given(const TensorView& gradient, int64_t i) {
    return gradient.data == nullptr ? 0.0F : gradient.f32()[i];
  }

  static void line_gradient(const Call& call, const GradientTarget& target, int64_t step,
                            const Line& line) {
    const float* s = call.inputs[0].f32() + line.scores;
    float* to = target.to.f32() + line.scores;
    const float most = call.outputs[0].f32()[line.segment];
    const float log_sum = call.outputs[1].f32()[line.segment];
    const float of_sum = given(call.output_gradients[1], line.segment);
    float of_most = given(call.output_gradients[0], line.segment) - of_sum;
    for (int64_t c = 0; c < line.classes; ++c) {
      float gradient = of_sum * std::exp((s[c * step] - most) - log_sum);
      if (s[c * step] == most) {
        gradient += of_most;
        of_most = 0;
      }
      float& entry = to[c * step];
      entry = target.accumulate ? entry + gradient : gradient;
    }
  }

  int axis_;
  std::vector<Range> segments_;  // of the classes held here
};

}  // namespace

KernelEntries register_segment_log_sum_exp() {
  return {{.op = "SegmentLogSumExp", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<SegmentLogSumExpKernel>(site);
           }}};
}

}  // namespace kerf::ops::cpu
