// Dropout on the CPU.
#include <array>
#include <cstring>

#include "ops/cpu/kernels.h"
#include "ops/simd/simd.h"
#include "ops/dropout.h"

namespace kerf::ops::cpu {
namespace {

// Calls run(local, global, count) for each stretch of elements of axes [axis, rank) of the box that
// lies dense in the global tensor.
template <class Run>
void for_stretches(const Box& box, const Shape& shape, int axis, int64_t& local, int64_t global,
                   const Run& run) {
  const IndexSet& set = box.axes[static_cast<size_t>(axis)];
  int64_t inside = 1;
  bool whole_inside = true;
  for (int i = axis + 1; i < shape.rank(); ++i) {
    inside *= shape[i];
    whole_inside = whole_inside && box.axes[static_cast<size_t>(i)].is_all();
  }
  for (const Range& range : set.ranges(shape[axis])) {
    if (whole_inside) {
      run(local, global + range.begin * inside, range.size() * inside);
      local += range.size() * inside;
      continue;
    }
    for (int64_t i = range.begin; i < range.end; ++i)
      for_stretches(box, shape, axis + 1, local, global + i * inside, run);
  }
}

class DropoutKernel final : public Kernel {
 public:
  explicit DropoutKernel(double ratio) : ratio_(ratio) {}

  void forward(const Call& call) override {
    double ratio = ratio_;
    if (call.inputs.size() > 1) ratio = static_cast<double>(*call.inputs[1].f32());
    check_dropout_ratio(ratio);
    if (call.saved != nullptr) std::memcpy(call.saved, &ratio, sizeof ratio);
    const TensorView& x = call.inputs[0];
    if (call.training && ratio > 0)
      drop<false>(call, ratio, x.f32(), call.outputs[0].f32());
    else
      simd::copy_or_add(x.f32(), x.elements(), call.outputs[0].f32(), false);
  }

  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    double ratio = 0;
    std::memcpy(&ratio, call.saved, sizeof ratio);
    const float* dy = call.output_gradients[0].f32();
    for (const auto& target : targets) {
      float* to = target.to.f32();
      if (target.input == 1) {  // the ratio is no function's argument
        if (!target.accumulate) *to = 0;
      } else if (!call.training || ratio == 0) {
        simd::copy_or_add(dy, target.to.elements(), to, target.accumulate);
      } else if (target.accumulate) {
        drop<true>(call, ratio, dy, to);
      } else {
        drop<false>(call, ratio, dy, to);
      }
    }
  }

 private:
  template <bool kAccumulate>
  static void drop(const Call& call, double ratio, const float* from, float* to) {
    const Shape& shape = call.output_shape;
    int64_t features = 1;
    for (int i = 1; i < shape.rank(); ++i) features *= shape[i];
    const auto least = static_cast<float>(ratio);
    const auto scale = static_cast<float>(1 / (1 - ratio));
    int64_t local = 0;
    for_stretches(normalized(*call.output_box, shape), shape, 0, local,
                  call.first_sample * features, [&](int64_t at, int64_t global, int64_t count) {
                    std::array<float, 256> draws;
                    for (int64_t done = 0; done < count; done += 256) {
                      const auto some = static_cast<size_t>(std::min<int64_t>(256, count - done));
                      fill_uniform(call.key, global + done, std::span(draws).first(some));
                      for (size_t i = 0; i < some; ++i) {
                        const auto j = static_cast<size_t>(at + done) + i;
                        const float kept = draws[i] >= least ? from[j] * scale : 0.0F;
                        to[j] = kAccumulate ? to[j] + kept : kept;
                      }
                    }
                  });
  }

  double ratio_;
};

}  // namespace

std::unique_ptr<Kernel> make_dropout_kernel(double ratio) {
  return std::make_unique<DropoutKernel>(ratio);
}

}  // namespace kerf::ops::cpu
