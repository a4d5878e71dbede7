// BatchNormalization on the CPU. With k = scale / deviation, s = sum of dY and p = sum of dY times
// the normalised X over the M elements of a channel,
//   dX = k * (dY - s/M - normalised * p/M)   where the statistics are X's own, else dX = k * dY,
//   dscale = p,   dB = s.
#include <cmath>

#include "ops/cpu/channel_rows.h"
#include "ops/kernel.h"
#include "ops/operators/batch_normalization.h"

namespace kerf::ops::cpu {
namespace {

class BatchNormalizationKernel final : public Kernel {
 public:
  explicit BatchNormalizationKernel(const BatchNormalization& op) : op_(op) {}

  void forward(const Call& call) override {
    const Channels c = channels_of(call.inputs[0].shape, op_.images());
    const bool own = op_.training_mode() && call.training;
    for_blocks(c, [&](const ChannelBlock& block) {
      Statistics statistics;
      if (own) {
        statistics = measure(call.inputs[0].f32(), c, block);
      } else {
        const auto count = static_cast<size_t>(block.end - block.begin);
        std::copy_n(call.inputs[3].f32() + block.begin, count, statistics.mean.begin());
        std::copy_n(call.inputs[4].f32() + block.begin, count, statistics.variance.begin());
      }
      for (size_t i = 1; i < call.outputs.size(); ++i)
        put(i == 1 ? statistics.mean : statistics.variance, block, call.outputs[i].f32());
      normalise(call, c, block, statistics);
    });
  }

  void input_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const Channels c = channels_of(call.inputs[0].shape, op_.images());
    auto* handed = reinterpret_cast<float*>(call.handed.data());
    for_blocks(c, [&](const ChannelBlock& block) {
      const Sums sums = sum_gradients(call, c, block);
      for (int64_t i = block.begin; i < block.end && handed != nullptr; ++i) {
        handed[i] = static_cast<float>(sums.sum[block.local(i)]);
        handed[c.channels + i] = static_cast<float>(sums.product[block.local(i)]);
      }
      for (const GradientTarget& target : targets)
        if (target.input == 0)
          x_gradient(call, c, block, sums, target.to.f32());
        else
          for (int64_t i = block.begin; i < block.end; ++i)
            target.to.f32()[i] = static_cast<float>(channel_gradient(
                call, c, target.input, i, sums.sum[block.local(i)], sums.product[block.local(i)]));
    });
  }

  void weight_gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets) {
      const int64_t channels = target.to.elements();
      const auto* from =
          reinterpret_cast<const float*>(call.handed.data()) + (target.input == 1 ? channels : 0);
      simd::copy_or_add(from, channels, target.to.f32(), target.accumulate);
    }
  }

 private:
  struct Statistics {
    ChannelValues mean{};
    ChannelValues variance{};
  };
  // Of dY, and of dY times the normalised X.
  struct Sums {
    ChannelSums sum{};
    ChannelSums product{};
  };

  static Statistics measure(const float* x, const Channels& c, const ChannelBlock& block) {
    const double count = static_cast<double>(std::max<int64_t>(c.count(), 1));
    const auto averages = [&](const ChannelSums& sums) {
      ChannelValues values{};
      for (size_t i = 0; i < sums.size(); ++i) values[i] = static_cast<float>(sums[i] / count);
      return values;
    };
    Statistics statistics;
    statistics.mean = averages(sum_channels(c, block, x));
    statistics.variance = averages(sum_centred_squares(c, block, x, statistics.mean));
    return statistics;
  }

  static ChannelValues values_of(const float* from, const ChannelBlock& block) {
    ChannelValues values{};
    std::copy_n(from + block.begin, block.size(), values.begin());
    return values;
  }

  static void put(const ChannelValues& values, const ChannelBlock& block, float* to) {
    if (to != nullptr)
      std::copy_n(values.begin(), static_cast<size_t>(block.end - block.begin), to + block.begin);
  }

  void normalise(const Call& call, const Channels& c, const ChannelBlock& block,
                 const Statistics& statistics) const {
    ChannelValues inverse{};
    for (size_t i = 0; i < inverse.size(); ++i)
      inverse[i] = 1.0F / std::sqrt(statistics.variance[i] + op_.epsilon());
    if (!call.reserve.empty()) {
      auto* reserve = reinterpret_cast<float*>(call.reserve.data());
      put(statistics.mean, block, reserve);
      put(inverse, block, reserve + c.channels);
    }
    ChannelLine line{.mean = statistics.mean};
    for (int64_t i = block.begin; i < block.end; ++i) {
      line.scale[block.local(i)] = call.inputs[1].f32()[i] * inverse[block.local(i)];
      line.shift[block.local(i)] = call.inputs[2].f32()[i];
    }
    map_channels(c, block, call.inputs[0].f32(), line, call.outputs[0].f32());
  }

  static Sums sum_gradients(const Call& call, const Channels& c, const ChannelBlock& block) {
    const float* x = call.inputs[0].f32();
    const float* dy = call.output_gradients[0].f32();
    const auto* mean = reinterpret_cast<const float*>(call.reserve.data());
    const float* inverse = mean + c.channels;
    if (dy == nullptr) return {};
    Sums sums;
    sums.sum = sum_channels(c, block, dy);
    sums.product = sum_centred_products(c, block, dy, x, values_of(mean, block));
    for (int64_t i = block.begin; i < block.end; ++i)
      sums.product[block.local(i)] *= static_cast<double>(inverse[i]);
    return sums;
  }

  void x_gradient(const Call& call, const Channels& c, const ChannelBlock& block, const Sums& sums,
                  float* dx) const {
    const auto* mean = reinterpret_cast<const float*>(call.reserve.data());
    const float* inverse = mean + c.channels;
    const bool own = op_.training_mode() && call.training;
    const double count = static_cast<double>(std::max<int64_t>(c.count(), 1));
    ChannelValues scales{};
    ChannelLine line{.mean = values_of(mean, block)};
    for (int64_t i = block.begin; i < block.end; ++i) {
      const size_t local = block.local(i);
      scales[local] = call.inputs[1].f32()[i] * inverse[i];
      if (!own) continue;
      const double deviation = static_cast<double>(inverse[i]);
      const double scale = static_cast<double>(call.inputs[1].f32()[i]) * deviation;
      line.shift[local] = static_cast<float>((given(call, 1, i) - scale * sums.sum[local]) / count);
      line.scale[local] = static_cast<float>(
          (2 * given(call, 2, i) - scale * sums.product[local] * deviation) / count);
    }
    map_channels_back(c, block, call.output_gradients[0].f32(), scales, call.inputs[0].f32(), line,
                      dx);
  }

  // What flows into the channel's output 1 or 2.
  static double given(const Call& call, size_t output, int64_t i) {
    if (output >= call.output_gradients.size()) return 0;
    const TensorView& gradient = call.output_gradients[output];
    return gradient.data == nullptr ? 0 : static_cast<double>(gradient.f32()[i]);
  }

  // Of scale, B, and of statistics that came from elsewhere.
  static double channel_gradient(const Call& call, const Channels& c, int input, int64_t i,
                                 double sum, double product) {
    if (input == 1) return product;
    if (input == 2) return sum;
    const double inverse =
        static_cast<double>(reinterpret_cast<const float*>(call.reserve.data())[c.channels + i]);
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
