// GroupNormalization and InstanceNormalization on the CPU. With n the normalised X, d its inverse
// deviation and g = dY * scale, means over a group,
//   dX = d * (g - mean(g) - n * mean(g * n)),   dscale = sum of dY * n,   dbias = sum of dY.
#include <cmath>

#include "ops/cpu/channel_rows.h"
#include "ops/cpu/normalized_rows.h"
#include "ops/kernel.h"
#include "ops/operators/group_normalization.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// Local extents.
struct GroupExtents {
  int64_t samples = 0;
  int64_t groups = 0;
  int64_t channels = 0;  // of a group
  int64_t inner = 1;
  int64_t length() const { return channels * inner; }
  int64_t all() const { return samples * groups; }

  GroupExtents(const GroupNormalization& op, const Shape& x)
      : samples(x[0]), groups(x[1] / op.group_channels()), channels(op.group_channels()) {
    for (int i = 2; i < x.rank(); ++i) inner *= x[i];
  }
};

class GroupNormalizationKernel final : public Kernel {
 public:
  explicit GroupNormalizationKernel(const GroupNormalization& op) : op_(op) {}

  void forward(const Call& call) override {
    const GroupExtents e(op_, call.inputs[0].shape);
    auto* reserve = reinterpret_cast<float*>(call.reserve.data());
    for_groups(e, [&](int64_t n, int64_t g) {
      const int64_t number = n * e.groups + g;
      const float* x = call.inputs[0].f32() + number * e.length();
      float* y = call.outputs[0].f32() + number * e.length();
      const auto count = static_cast<float>(e.length());
      const float mean = simd::sum_of(x, e.length()) / count;
      const float variance = sum_row_centred_squares(x, mean, e.length()) / count;
      const float inverse = 1.0F / std::sqrt(variance + op_.epsilon());
      for (int64_t i = 0; i < e.channels; ++i) {
        const int64_t c = g * e.channels + i;
        map_row(x + i * e.inner, mean, inverse * call.inputs[1].f32()[c], call.inputs[2].f32()[c],
                e.inner, y + i * e.inner);
      }
      if (reserve == nullptr) return;
      reserve[number] = mean;
      reserve[e.all() + number] = inverse;
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const GroupExtents e(op_, call.inputs[0].shape);
    float* dx = targets.empty() ? nullptr : targets[0].to.f32();
    auto* handed = reinterpret_cast<float*>(call.handed.data());
    const int64_t all_channels = e.groups * e.channels;
    if (handed != nullptr) std::fill_n(handed, 2 * all_channels, 0.0F);
    if (e.all() * e.length() == 0) return;
    // Threads share no group, whose samples are summed in order.
    simd::parallel_pieces(e.groups, 1 + simd::kLeastElements / (e.samples * e.length()),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t g = begin; g < end; ++g)
                              for (int64_t n = 0; n < e.samples; ++n)
                                gradient_of_group(
                                    call, e, n, g, dx, handed,
                                    handed == nullptr ? nullptr : handed + all_channels);
                          });
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const int64_t channels = target.to.elements();
      const auto* from =
          reinterpret_cast<const float*>(call.handed.data()) + (target.input == 1 ? 0 : channels);
      simd::copy_or_add(from, channels, target.to.f32(), target.accumulate);
    }
  }

 private:
  template <class Work>
  static void for_groups(const GroupExtents& e, const Work& work) {
    if (e.all() * e.length() == 0) return;
    simd::parallel_pieces(e.all(), 1 + simd::kLeastElements / e.length(),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i) work(i / e.groups, i % e.groups);
                          });
  }

  // dx, and products with their sums, may be null: not wanted.
  static void gradient_of_group(const Call& call, const GroupExtents& e, int64_t n, int64_t g,
                                float* dx, float* products, float* sums) {
    const auto* reserve = reinterpret_cast<const float*>(call.reserve.data());
    const int64_t number = n * e.groups + g;
    const float mean = reserve[number];
    const float inverse = reserve[e.all() + number];
    const float* x = call.inputs[0].f32() + number * e.length();
    const float* dy = call.output_gradients[0].f32() + number * e.length();
    const float* scale = call.inputs[1].f32() + g * e.channels;
    float sum = 0;      // of dY * scale
    float product = 0;  // of that times n
    for (int64_t i = 0; i < e.channels; ++i) {
      const float of_dy = simd::sum_of(dy + i * e.inner, e.inner);
      const float of_both =
          sum_centred_product(dy + i * e.inner, x + i * e.inner, mean, e.inner) * inverse;
      if (products != nullptr) products[g * e.channels + i] += of_both;
      if (sums != nullptr) sums[g * e.channels + i] += of_dy;
      sum += scale[i] * of_dy;
      product += scale[i] * of_both;
    }
    if (dx == nullptr) return;
    const auto count = static_cast<float>(e.length());
    for (int64_t i = 0; i < e.channels; ++i)
      map_row_gradient(dy + i * e.inner, scale[i] * inverse, x + i * e.inner, mean,
                       -inverse * inverse * product / count, -inverse * sum / count, e.inner,
                       dx + number * e.length() + i * e.inner);
  }

  const GroupNormalization& op_;
};

std::unique_ptr<Kernel> make_group_normalization(const KernelSite& site) {
  return std::make_unique<GroupNormalizationKernel>(site.as<GroupNormalization>());
}

}  // namespace

KernelEntries register_group_normalization() {
  return {{"GroupNormalization", make_group_normalization},
          {"InstanceNormalization", make_group_normalization}};
}

}  // namespace kerf::ops::cpu
