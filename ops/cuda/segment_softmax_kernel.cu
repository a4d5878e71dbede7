// SegmentSoftmax on a GPU. With l the logarithm of the whole sum and w_s the share that segment s
// has of it, and t = sum over the line, as far as it is here, of dY * Y (of dY, for logarithms):
//   dX = dY * Y (dY),   dmaximum_s = dlog_sum_s = -t * w_s.
#include <cmath>

#include "ops/cuda/bodies.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/folded.h"
#include "ops/operators/segment_softmax.h"

namespace kerf::ops::cuda {
namespace {

// Of the exponentials of a whole line: the logarithm is of their sum beside the largest.
struct LineSum {
  float most;
  double logarithm;
};

// Lines along the axis, by what every segment of them came to.
struct SegmentLines {
  int64_t length;    // of a line, as far as it is here
  int64_t segments;  // of the whole line
  int64_t inner;
  const float* maximum;
  const float* log_sum;

  KERF_DEVICE int64_t line_of(int64_t at) const {
    return at / (length * inner) * inner + at % inner;
  }
  KERF_DEVICE int64_t element(int64_t line, int64_t i) const {
    return (line / inner * length + i) * inner + line % inner;
  }
  KERF_DEVICE int64_t segment(int64_t line, int64_t s) const {
    return (line / inner * segments + s) * inner + line % inner;
  }
  KERF_DEVICE LineSum sum_of(int64_t line) const {
    LineSum result{maximum[segment(line, 0)], 0};
    for (int64_t s = 1; s < segments; ++s)
      result.most = std::fmax(result.most, maximum[segment(line, s)]);
    double sum = 0;
    for (int64_t s = 0; s < segments; ++s) sum += std::exp(of_segment(line, s, result.most));
    result.logarithm = std::log(sum);
    return result;
  }
  KERF_DEVICE double of_segment(int64_t line, int64_t s, float most) const {
    const int64_t at = segment(line, s);
    return (static_cast<double>(maximum[at]) - static_cast<double>(most)) +
           static_cast<double>(log_sum[at]);
  }
};

struct SoftmaxOfLine {
  SegmentLines lines;
  bool logarithm;
  const float* x;
  float* y;
  KERF_DEVICE void operator()(int64_t at) const {
    const LineSum sum = lines.sum_of(lines.line_of(at));
    const double below =
        (static_cast<double>(x[at]) - static_cast<double>(sum.most)) - sum.logarithm;
    y[at] = static_cast<float>(logarithm ? below : std::exp(below));
  }
};

// y: null where the logarithm is taken.
struct GivenOfLine {
  const float* y;
  const float* dy;
  float* to;
  bool accumulate;
  KERF_DEVICE void operator()(int64_t at) const {
    put(to + at, accumulate, y == nullptr ? dy[at] : dy[at] * y[at]);
  }
};

struct SegmentGradient : Adding<double> {
  SegmentLines lines;
  const float* y;
  const float* dy;
  float* to;
  bool accumulate;
  KERF_DEVICE int64_t length(int64_t) const { return lines.length; }
  KERF_DEVICE double term(int64_t line, int64_t i) const {
    const int64_t at = lines.element(line, i);
    return static_cast<double>(y == nullptr ? dy[at] : dy[at] * y[at]);
  }
  KERF_DEVICE void finish(int64_t line, double sum) const {
    const LineSum whole = lines.sum_of(line);
    for (int64_t s = 0; s < lines.segments; ++s) {
      const double share = std::exp(lines.of_segment(line, s, whole.most) - whole.logarithm);
      put(to + lines.segment(line, s), accumulate, static_cast<float>(-sum * share));
    }
  }
};

class SegmentSoftmaxKernel final : public PlainKernel {
 public:
  SegmentSoftmaxKernel(const Queue& queue, const SegmentSoftmax& op) : queue_(queue), op_(op) {}

  void forward(const Call& call) override {
    for_each(queue_, call.outputs[0].elements(),
             SoftmaxOfLine{lines_of(call, call.outputs[0].shape), op_.logarithm(),
                           call.inputs[0].f32(), call.outputs[0].f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const Shape& shape = call.output_gradients[0].shape;
    const float* dy = call.output_gradients[0].f32();
    const float* y = op_.logarithm() ? nullptr : call.outputs[0].f32();
    for (const GradientTarget& target : targets) {
      if (target.input == 0) {
        for_each(queue_, target.to.elements(),
                 GivenOfLine{y, dy, target.to.f32(), target.accumulate});
        continue;
      }
      const Folded folded = fold(shape, op_.axis());
      SegmentGradient body;
      body.lines = lines_of(call, shape);
      body.y = y;
      body.dy = dy;
      body.to = target.to.f32();
      body.accumulate = target.accumulate;
      reduce_rows(queue_, folded.outer * folded.inner, body);
    }
  }

 private:
  SegmentLines lines_of(const Call& call, const Shape& shape) const {
    const Folded folded = fold(shape, op_.axis());
    return {folded.length, call.inputs[1].shape[op_.axis()], folded.inner, call.inputs[1].f32(),
            call.inputs[2].f32()};
  }

  const Queue& queue_;
  const SegmentSoftmax& op_;
};

}  // namespace

KernelEntries register_segment_softmax() {
  return {{.op = "SegmentSoftmax", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<SegmentSoftmaxKernel>(queue_of(site),
                                                           site.as<SegmentSoftmax>());
           }}};
}

}  // namespace kerf::ops::cuda
