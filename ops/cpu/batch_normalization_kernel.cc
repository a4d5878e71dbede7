// BatchNormalization on the CPU. With k = scale / deviation, s = sum of dY and p = sum of dY times
// the normalised X over the M elements of a channel,
//   dX = k * (dY - s/M - normalised * p/M)   where the statistics are X's own, else dX = k * dY,
//   dscale = p,   dB = s.
#include "ops/operators/batch_normalization.h"

#include <cmath>
#include <cstring>

#include "ops/cpu/channel_rows.h"
#include "ops/kernel.h"

namespace kerf::ops::cpu {
namespace {

// The running statistics' sums, in double over rows summed in float.
template <class Term>
void channel_sums(const Channels& c, int64_t begin, int64_t end, std::vector<double>& sums,
                  const Term& term) {
  for_rows(c, begin, end, [&](int64_t i, int64_t at) {
    sums[static_cast<size_t>(i - begin)] += static_cast<double>(term(i, at));
  });
}

class BatchNormalizationKernel final : public Kernel {
 public:
  explicit BatchNormalizationKernel(const BatchNormalization& op) : op_(op) {}

  void forward(const Call& call) override {
    const Channels c = channels_of(call.inputs[0].shape);
    const bool own = op_.training_mode() && call.training;
    simd::parallel_pieces(c.channels, c.least(), [&](int64_t begin, int64_t end) {
      std::vector<float> mean(static_cast<size_t>(end - begin));
      std::vector<float> variance(mean.size());
      if (own) {
        measure(call.inputs[0].f32(), c, begin, end, mean, variance);
      } else {
        std::copy_n(call.inputs[3].f32() + begin, end - begin, mean.begin());
        std::copy_n(call.inputs[4].f32() + begin, end - begin, variance.begin());
      }
      if (op_.training_mode()) {
        put(mean, call.outputs[1], begin);
        put(variance, call.outputs[2], begin);
      }
      normalise(call, c, begin, end, mean, variance);
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const Channels c = channels_of(call.inputs[0].shape);
    simd::parallel_pieces(c.channels, c.least(), [&](int64_t begin, int64_t end) {
      std::vector<double> sum(static_cast<size_t>(end - begin));
      std::vector<double> product(sum.size());
      sum_gradients(call, c, begin, end, sum, product);
      auto* handed = reinterpret_cast<float*>(call.handed);
      for (int64_t i = begin; i < end && handed != nullptr; ++i) {
        handed[i] = static_cast<float>(sum[static_cast<size_t>(i - begin)]);
        handed[c.channels + i] = static_cast<float>(product[static_cast<size_t>(i - begin)]);
      }
      for (const GradientTarget& target : targets)
        if (target.input == 0)
          x_gradient(call, c, begin, end, sum, product, target.to.f32());
        else
          for (int64_t i = begin; i < end; ++i)
            target.to.f32()[i] = static_cast<float>(
                channel_gradient(call, c, target.input, i, sum[static_cast<size_t>(i - begin)],
                                 product[static_cast<size_t>(i - begin)]));
    });
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const int64_t channels = target.to.elements();
      const auto* from =
          reinterpret_cast<const float*>(call.handed) + (target.input == 1 ? channels : 0);
      simd::copy_or_add(from, channels, target.to.f32(), target.accumulate);
    }
  }

 private:
  static void measure(const float* x, const Channels& c, int64_t begin, int64_t end,
                      std::vector<float>& mean, std::vector<float>& variance) {
    const double count = static_cast<double>(std::max<int64_t>(c.count(), 1));
    std::vector<double> sums(mean.size());
    channel_sums(c, begin, end, sums,
                 [&](int64_t, int64_t at) { return sum_row(x + at, c.inner); });
    for (size_t i = 0; i < sums.size(); ++i) mean[i] = static_cast<float>(sums[i] / count);
    std::fill(sums.begin(), sums.end(), 0);
    channel_sums(c, begin, end, sums, [&](int64_t i, int64_t at) {
      return sum_centred_squares(x + at, mean[static_cast<size_t>(i - begin)], c.inner);
    });
    for (size_t i = 0; i < sums.size(); ++i) variance[i] = static_cast<float>(sums[i] / count);
  }

  static void put(const std::vector<float>& values, const TensorView& to, int64_t begin) {
    if (to.data != nullptr) std::copy(values.begin(), values.end(), to.f32() + begin);
  }

  void normalise(const Call& call, const Channels& c, int64_t begin, int64_t end,
                 const std::vector<float>& mean, const std::vector<float>& variance) const {
    std::vector<float> inverse(mean.size());
    for (size_t i = 0; i < mean.size(); ++i)
      inverse[i] = 1.0F / std::sqrt(variance[i] + op_.epsilon());
    if (call.reserve != nullptr) {
      auto* reserve = reinterpret_cast<float*>(call.reserve);
      std::copy(mean.begin(), mean.end(), reserve + begin);
      std::copy(inverse.begin(), inverse.end(), reserve + c.channels + begin);
    }
    const float* x = call.inputs[0].f32();
    for_rows(c, begin, end, [&](int64_t i, int64_t at) {
      const auto local = static_cast<size_t>(i - begin);
      scale_centred(x + at, mean[local], call.inputs[1].f32()[i] * inverse[local],
                    call.inputs[2].f32()[i], c.inner, call.outputs[0].f32() + at);
    });
  }

  // Of dY, and of dY times the normalised X.
  static void sum_gradients(const Call& call, const Channels& c, int64_t begin, int64_t end,
                            std::vector<double>& sum, std::vector<double>& product) {
    const float* x = call.inputs[0].f32();
    const float* dy = call.output_gradients[0].f32();
    const auto* mean = reinterpret_cast<const float*>(call.reserve);
    const float* inverse = mean + c.channels;
    if (dy == nullptr) return;
    channel_sums(c, begin, end, sum,
                 [&](int64_t, int64_t at) { return sum_row(dy + at, c.inner); });
    channel_sums(c, begin, end, product, [&](int64_t i, int64_t at) {
      return sum_centred_products(dy + at, x + at, mean[i], c.inner);
    });
    for (int64_t i = begin; i < end; ++i)
      product[static_cast<size_t>(i - begin)] *= static_cast<double>(inverse[i]);
  }

  void x_gradient(const Call& call, const Channels& c, int64_t begin, int64_t end,
                  const std::vector<double>& sum, const std::vector<double>& product,
                  float* dx) const {
    const auto* mean = reinterpret_cast<const float*>(call.reserve);
    const float* inverse = mean + c.channels;
    const float* dy = call.output_gradients[0].f32();
    const float* x = call.inputs[0].f32();
    const bool own = op_.training_mode() && call.training;
    std::vector<float> slope(sum.size());
    std::vector<float> shift(sum.size());
    for (int64_t i = begin; own && i < end; ++i) {
      const auto local = static_cast<size_t>(i - begin);
      const double count = static_cast<double>(std::max<int64_t>(c.count(), 1));
      const double scale = static_cast<double>(call.inputs[1].f32()[i]) *
                           static_cast<double>(inverse[i]);
      shift[local] = static_cast<float>((given(call, 1, i) - scale * sum[local]) / count);
      slope[local] = static_cast<float>(
          (2 * given(call, 2, i) - scale * product[local] * static_cast<double>(inverse[i])) /
          count);
    }
    for_rows(c, begin, end, [&](int64_t i, int64_t at) {
      const auto local = static_cast<size_t>(i - begin);
      centred_gradient(dy == nullptr ? nullptr : dy + at, call.inputs[1].f32()[i] * inverse[i],
                       x + at, mean[i], slope[local], shift[local], c.inner, dx + at);
    });
  }

  // What flows into the channel's output 1 or 2.
  static double given(const Call& call, size_t output, int64_t i) {
    const TensorView& gradient = call.output_gradients[output];
    return gradient.data == nullptr ? 0 : static_cast<double>(gradient.f32()[i]);
  }

  // Of scale, B, and of statistics that came from elsewhere.
  static double channel_gradient(const Call& call, const Channels& c, int input, int64_t i,
                                 double sum, double product) {
    if (input == 1) return product;
    if (input == 2) return sum;
    const double inverse =
        static_cast<double>(reinterpret_cast<const float*>(call.reserve)[c.channels + i]);
    const double scale = static_cast<double>(call.inputs[1].f32()[i]) * inverse;
    return input == 3 ? -scale * sum : -0.5 * scale * inverse * product;
  }

  const BatchNormalization& op_;
};

}  // namespace

KernelEntries register_batch_normalization() {
  return {
      {.op = "BatchNormalization", .make = [](const KernelSite& site) -> std::unique_ptr<Kernel> {
         return std::make_unique<BatchNormalizationKernel>(site.as<BatchNormalization>());
       }}};
}

}  // namespace kerf::ops::cpu
