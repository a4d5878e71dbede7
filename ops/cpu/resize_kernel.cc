// Resize on the CPU: one axis after the other, a line of numbers at a time; the gradient goes the
// same way back.
#include <array>

#include "ops/activation_kernel.h"
#include "ops/folded.h"
#include "ops/operators/resize.h"
#include "ops/simd/simd.h"
#include "ops/workspace.h"

namespace kerf::ops::cpu {
namespace {

KERF_CLONES void set_line(const float* from, float weight, int64_t count, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = weight * from[i];
}

KERF_CLONES void add_line(const float* from, float weight, int64_t count, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += weight * from[i];
}

// A row whose every number is made of `taps` of another.
template <int kTaps>
[[gnu::always_inline]] inline void gather_taps(const float* from, const int64_t* indices,
                                               const float* weights, int64_t count, float* to) {
#pragma omp simd
  for (int64_t o = 0; o < count; ++o) {
    float sum = weights[o * kTaps] * from[indices[o * kTaps]];
    for (int64_t k = 1; k < kTaps; ++k)
      sum += weights[o * kTaps + k] * from[indices[o * kTaps + k]];
    to[o] = sum;
  }
}

KERF_CLONES void gather_row(const ResampledAxis& axis, const float* from, float* to) {
  const auto all = static_cast<int64_t>(axis.indices.size());
  const int64_t* indices = axis.indices.data();
  const float* weights = axis.weights.data();
  if (axis.taps == 1) return gather_taps<1>(from, indices, weights, axis.output, to);
  if (axis.taps == 2) return gather_taps<2>(from, indices, weights, axis.output, to);
  std::fill_n(to, axis.output, 0.0F);
  for (int64_t o = 0, k = 0; k < all; ++k) {
    while (k >= axis.first[static_cast<size_t>(o) + 1]) ++o;
    to[o] += weights[k] * from[indices[k]];
  }
}

void scatter_row(const ResampledAxis& axis, const float* from, float* to) {
  std::fill_n(to, axis.input, 0.0F);
  for (size_t o = 0; o < static_cast<size_t>(axis.output); ++o)
    for (auto k = static_cast<size_t>(axis.first[o]); k < static_cast<size_t>(axis.first[o + 1]);
         ++k)
      to[axis.indices[k]] += axis.weights[k] * from[o];
}

// Lines of `inner` numbers.
void gather_lines(const ResampledAxis& axis, int64_t inner, const float* from, float* to) {
  for (size_t o = 0; o < static_cast<size_t>(axis.output); ++o, to += inner) {
    const auto begin = static_cast<size_t>(axis.first[o]);
    const auto end = static_cast<size_t>(axis.first[o + 1]);
    if (begin == end) std::fill_n(to, inner, 0.0F);
    for (size_t k = begin; k < end; ++k)
      (k == begin ? set_line : add_line)(from + axis.indices[k] * inner, axis.weights[k], inner,
                                         to);
  }
}

void scatter_lines(const ResampledAxis& axis, int64_t inner, const float* from, float* to) {
  std::fill_n(to, axis.input * inner, 0.0F);
  for (size_t o = 0; o < static_cast<size_t>(axis.output); ++o, from += inner)
    for (auto k = static_cast<size_t>(axis.first[o]); k < static_cast<size_t>(axis.first[o + 1]);
         ++k)
      add_line(from, axis.weights[k], inner, to + axis.indices[k] * inner);
}

enum class Way : uint8_t { kForward, kBack };

// `shape` is the input's for this axis.
void resample(const ResampledAxis& axis, const Shape& shape, Way way, const float* from,
              float* to) {
  const Folded f = fold(shape, axis.axis);
  const bool back = way == Way::kBack;
  const int64_t read = (back ? axis.output : axis.input) * f.inner;
  const int64_t written = (back ? axis.input : axis.output) * f.inner;
  simd::parallel_pieces(f.outer, 1 + simd::kLeastElements / std::max<int64_t>(1, written),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t n = begin; n < end; ++n) {
                            const float* source = from + n * read;
                            float* target = to + n * written;
                            if (f.inner == 1)
                              (back ? scatter_row : gather_row)(axis, source, target);
                            else
                              (back ? scatter_lines : gather_lines)(axis, f.inner, source, target);
                          }
                        });
}

// The shapes between the axes: the input's, then after each.
std::array<Shape, Shape::kMaxRank + 1> shapes_between(const Resize& op, const Shape& x) {
  std::array<Shape, Shape::kMaxRank + 1> shapes{x};
  size_t count = 0;
  for (const ResampledAxis& axis : op.resampled()) {
    shapes[count + 1] = shapes[count];
    shapes[++count][axis.axis] = axis.output;
  }
  return shapes;
}

int64_t largest_between(const Resize& op, const Shape& x) {
  int64_t most = 0;
  const auto shapes = shapes_between(op, x);
  for (size_t i = 1; i < op.resampled().size(); ++i) most = std::max(most, shapes[i].elements());
  return most;
}

// Writes `value` where an index of any axis is outside of what is cropped.
void fill_outside(const Resize& op, const Shape& y, float value, float* to) {
  for (const ResampledAxis& axis : op.resampled()) {
    const Folded f = fold(y, axis.axis);
    for (int64_t o = 0; o < axis.output; ++o) {
      if (axis.first[static_cast<size_t>(o)] != axis.first[static_cast<size_t>(o) + 1]) continue;
      for (int64_t n = 0; n < f.outer; ++n)
        std::fill_n(to + (n * f.length + o) * f.inner, f.inner, value);
    }
  }
}

class ResizeKernel final : public ActivationKernel {
 public:
  explicit ResizeKernel(const KernelSite& site)
      : ActivationKernel(site.op), op_(site.as<Resize>()) {}

  void forward(const Call& call) override {
    run(call, Way::kForward, call.inputs[0].shape, call.inputs[0].f32(), call.outputs[0].f32());
    if (op_.outside() != 0)
      fill_outside(op_, call.outputs[0].shape, op_.outside(), call.outputs[0].f32());
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      run(call, Way::kBack, target.to.shape, call.output_gradients[0].f32(), target.to.f32());
  }

 private:
  void run(const Call& call, Way way, const Shape& x, const float* from, float* to) const {
    if (x.elements() == 0) return;
    const auto& axes = op_.resampled();
    const auto shapes = shapes_between(op_, x);
    if (axes.empty()) std::copy_n(from, x.elements(), to);
    Workspace workspace(call.workspace);
    const int64_t most = largest_between(op_, x);
    std::array<float*, 2> rooms{workspace.take<float>(most), workspace.take<float>(most)};
    for (size_t i = 0; i < axes.size(); ++i) {
      const size_t at = way == Way::kForward ? i : axes.size() - 1 - i;
      float* next = i + 1 == axes.size() ? to : rooms[i % 2];
      resample(axes[at], shapes[at], way, from, next);
      from = next;
    }
  }

  const Resize& op_;
};

}  // namespace

KernelEntries register_resize() {
  return {{.op = "Resize",
           .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
             return std::make_unique<ResizeKernel>(site);
           },
           .workspace =
               [](const BoundOperator& op, const LocalSpecs& local, int) {
                 return 2 * piece_bytes<float>(largest_between(static_cast<const Resize&>(op),
                                                               local.inputs[0].shape));
               }}};
}

}  // namespace kerf::ops::cpu
