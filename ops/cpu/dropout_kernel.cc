// Dropout on the CPU.
#include <array>
#include <cstring>
#include <vector>

#include "ops/kernel.h"
#include "ops/operators/dropout.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

class DropoutKernel final : public PlainKernel {
 public:
  explicit DropoutKernel(const KernelSite& site)
      : op_(site.as<Dropout>()), shape_(site.op.outputs()[0].shape) {
    const Shape largest = shape_.with_batch(site.largest);
    const Box box = normalized(site.iterations, largest);
    for (int axis = 0; axis < largest.rank(); ++axis) {
      const IndexSet& set = box.axes[static_cast<size_t>(axis)];
      ranges_.push_back(set.ranges(largest[axis]));
      whole_.push_back(set.is_all());
    }
  }

  void forward(const Call& call) override {
    double ratio = op_.ratio();
    if (call.inputs.size() > 1 && call.inputs[1].data != nullptr)
      ratio = static_cast<double>(*call.inputs[1].f32());
    check_dropout_ratio(ratio);
    if (!call.reserve.empty()) std::memcpy(call.reserve.data(), &ratio, sizeof ratio);
    auto* mask = call.outputs.size() > 1 ? call.outputs[1].as<uint8_t>() : nullptr;
    pass(call, ratio, call.inputs[0].f32(), call.outputs[0], mask);
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      if (target.input == 1) {  // the ratio is no function's argument
        if (!target.accumulate && target.to.data != nullptr) *target.to.f32() = 0;
        continue;
      }
      KERF_CHECK(!target.accumulate, "Dropout's data is an activation, whose gradient is no sum");
      double ratio = 0;
      std::memcpy(&ratio, call.reserve.data(), sizeof ratio);
      pass(call, ratio, call.output_gradients[0].f32(), target.to);
    }
  }

 private:
  // `mask`: null where it is not wanted.
  void pass(const Call& call, double ratio, const float* from, const TensorView& to,
            uint8_t* mask = nullptr) const {
    if (to.elements() == 0) return;
    if (!call.training || ratio == 0) {
      if (mask != nullptr) std::fill_n(mask, to.elements(), uint8_t{1});
      simd::copy_or_add(from, to.elements(), to.f32(), false);
      return;
    }
    const auto least = static_cast<float>(ratio);
    const auto scale = static_cast<float>(1 / (1 - ratio));
    float* result = to.f32();
    int64_t local = 0;
    const Shape shape = shape_.with_batch(call.samples);
    const RandomKey key = op_.key(call.key);
    for_stretches(shape, 0, local, 0, [&](int64_t at, int64_t global, int64_t count) {
      std::array<float, 256> draws;
      for (int64_t done = 0; done < count; done += 256) {
        const auto some = static_cast<size_t>(std::min<int64_t>(256, count - done));
        fill_uniform(key, global + done, std::span(draws).first(some));
        for (size_t i = 0; i < some; ++i) {
          const auto j = static_cast<size_t>(at + done) + i;
          result[j] = draws[i] >= least ? from[j] * scale : 0.0F;
          if (mask != nullptr) mask[j] = draws[i] >= least ? 1 : 0;
        }
      }
    });
  }

  // Calls run(local, global, count) for each stretch of elements of axes [axis, rank) of this part
  // that lies dense in the global tensor of the micro-batch, which has this shape.
  template <class Run>
  void for_stretches(const Shape& shape, int axis, int64_t& local, int64_t global,
                     const Run& run) const {
    if (axis == shape.rank()) return run(local++, global, 1);
    int64_t inside = 1;
    bool whole_inside = true;
    for (int i = axis + 1; i < shape.rank(); ++i) {
      inside *= shape[i];
      whole_inside = whole_inside && whole_[static_cast<size_t>(i)];
    }
    for (Range range : ranges_[static_cast<size_t>(axis)]) {
      range.end = std::min(range.end, shape[axis]);  // of the samples, some may be absent
      if (range.end <= range.begin) continue;
      if (whole_inside) {
        run(local, global + range.begin * inside, range.size() * inside);
        local += range.size() * inside;
        continue;
      }
      for (int64_t i = range.begin; i < range.end; ++i)
        for_stretches(shape, axis + 1, local, global + i * inside, run);
    }
  }

  const Dropout& op_;
  Shape shape_;                             // of the whole, maybe symbolic
  std::vector<std::vector<Range>> ranges_;  // of this part, per axis
  std::vector<bool> whole_;
};

std::unique_ptr<Kernel> make_dropout(const KernelSite& site) {
  return std::make_unique<DropoutKernel>(site);
}

}  // namespace

KernelEntries register_dropout() { return {{"Dropout", make_dropout}}; }

}  // namespace kerf::ops::cpu
