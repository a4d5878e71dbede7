// Add on the CPU, with one input repeated over the other.
#include <array>

#include "ops/kernel.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

struct RepeatedAxis {
  int64_t extent = 1;
  int64_t stride = 0;  // of the repeated input, in elements; 0 where it is repeated
};

// Last axis first.
struct RepeatedAxes {
  std::array<RepeatedAxis, Shape::kMaxRank> of{};
  size_t count = 0;
};

// The axes of `output` as `input` repeats over them, with neighbours that behave alike merged.
RepeatedAxes merged_axes(const Shape& input, const Shape& output) {
  const int shift = output.rank() - input.rank();
  RepeatedAxes axes;
  int64_t stride = 1;
  for (int axis = output.rank() - 1; axis >= 0; --axis) {
    const int64_t extent = output[axis];
    const int64_t own = axis < shift ? 1 : input[axis - shift];
    if (extent == 1) continue;
    const bool repeated = own == 1;
    if (axes.count > 0 && (axes.of[axes.count - 1].stride == 0) == repeated)
      axes.of[axes.count - 1].extent *= extent;
    else
      axes.of[axes.count++] = {extent, repeated ? 0 : stride};
    stride *= own;
  }
  if (axes.count == 0) axes.of[axes.count++] = {1, 1};
  return axes;
}

// Calls row(output offset, input offset, length, input stride 0 or 1) for every innermost row in
// order.
template <class Row>
void for_rows(const RepeatedAxes& axes, size_t depth, int64_t output, int64_t input,
              const Row& row) {
  if (depth == 0) {
    row(output, input, axes.of[0].extent, axes.of[0].stride);
    return;
  }
  int64_t inside = 1;
  for (size_t i = 0; i < depth; ++i) inside *= axes.of[i].extent;
  for (int64_t i = 0; i < axes.of[depth].extent; ++i)
    for_rows(axes, depth - 1, output + i * inside, input + i * axes.of[depth].stride, row);
}

KERF_CLONES void add_row(const float* x, int64_t count, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] += x[i];
}

// y may be a.
KERF_CLONES void add_to(const float* a, const float* b, int64_t count, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

KERF_CLONES void add_scalar_to(const float* a, float b, int64_t count, float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] + b;
}

class AddKernel final : public PlainKernel {
 public:
  void forward(const Call& call) override {
    const TensorView& y = call.outputs[0];
    const bool first_is_full = call.inputs[0].shape == y.shape;
    const TensorView& full = call.inputs[first_is_full ? 0 : 1];
    const TensorView& other = call.inputs[first_is_full ? 1 : 0];
    if (other.shape == y.shape) {
      simd::parallel_pieces(y.elements(), simd::kLeastElements, [&](int64_t begin, int64_t end) {
        add_to(full.f32() + begin, other.f32() + begin, end - begin, y.f32() + begin);
      });
      return;
    }
    if (y.elements() == 0) return;
    const auto axes = merged_axes(other.shape, y.shape);
    for_rows(axes, axes.count - 1, 0, 0,
             [&](int64_t to, int64_t from, int64_t count, int64_t stride) {
               if (stride == 1)
                 add_to(full.f32() + to, other.f32() + from, count, y.f32() + to);
               else
                 add_scalar_to(full.f32() + to, other.f32()[from], count, y.f32() + to);
             });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const auto& target : targets) {
      const TensorView& dy = call.output_gradients[0];
      if (target.to.shape == dy.shape)
        simd::copy_or_add(dy.f32(), dy.elements(), target.to.f32(), target.accumulate);
      else
        sum_repetitions(dy, target);
    }
  }

 private:
  // In one thread and ascending order, so that the sum never depends on the number of threads.
  static void sum_repetitions(const TensorView& dy, const GradientTarget& target) {
    float* to = target.to.f32();
    if (!target.accumulate) std::fill_n(to, target.to.elements(), 0.0F);
    if (dy.elements() == 0) return;
    const auto axes = merged_axes(target.to.shape, dy.shape);
    for_rows(axes, axes.count - 1, 0, 0,
             [&](int64_t from, int64_t at, int64_t count, int64_t stride) {
               if (stride == 1)
                 add_row(dy.f32() + from, count, to + at);
               else
                 to[at] += simd::sum_of(dy.f32() + from, count);
             });
  }
};

std::unique_ptr<Kernel> make_add(const KernelSite&) { return std::make_unique<AddKernel>(); }

}  // namespace

KernelEntries register_add() { return {{"Add", make_add}}; }

}  // namespace kerf::ops::cpu
