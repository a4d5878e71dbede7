// ChannelSum, CenteredSquareSum and ChannelStatistics on the CPU.
#include "ops/cpu/channel_rows.h"
#include "ops/kernel.h"
#include "ops/operators/channel_statistics.h"

namespace kerf::ops::cpu {
namespace {

void put(const GradientTarget& target, int64_t at, float gradient) {
  float& entry = target.to.f32()[at];
  entry = target.accumulate ? entry + gradient : gradient;
}

class ChannelSumKernel final : public PlainKernel {
 public:
  explicit ChannelSumKernel(const ChannelSum& op) : format_(op.images()) {}

  void forward(const Call& call) override {
    const Channels c = channels_of(call.inputs[0].shape, format_);
    const float* x = call.inputs[0].f32();
    float* totals = call.outputs[0].f32();
    for_blocks(c, [&](const ChannelBlock& block) {
      const ChannelSums sums = sum_channels(c, block, x);
      for (int64_t i = block.begin; i < block.end; ++i)
        totals[i] = static_cast<float>(sums[block.local(i)]);
    });
    std::fill_n(totals + c.channels, c.channels, static_cast<float>(c.count()));
  }

 protected:
  // The numbers of elements do not depend on X.
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const float* dy = call.output_gradients[0].f32();
    for (const GradientTarget& target : targets) {
      const Channels c = channels_of(target.to.shape, format_);
      for_blocks(c, [&](const ChannelBlock& block) {
        for_rows(c, block, [&](int64_t i, int64_t at) {
          for (int64_t j = at; j < at + c.inner; ++j) put(target, j, dy[i]);
        });
      });
    }
  }

 private:
  ImageFormat format_;
};

class CenteredSquareSumKernel final : public PlainKernel {
 public:
  explicit CenteredSquareSumKernel(const CenteredSquareSum& op) : format_(op.images()) {}

  void forward(const Call& call) override {
    const Channels c = channels_of(call.inputs[0].shape, format_);
    const float* x = call.inputs[0].f32();
    for_blocks(c, [&](const ChannelBlock& block) {
      const ChannelSums sums = sum_centred_squares(c, block, x, means(call, c, block));
      for (int64_t i = block.begin; i < block.end; ++i)
        call.outputs[0].f32()[i] = static_cast<float>(sums[block.local(i)]);
    });
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      if (target.input == 0)
        x_gradient(call, target);
      else
        totals_gradient(call, target);
  }

 private:
  // totals: the sums, then the numbers of elements.
  static float mean(const Call& call, const Channels& c, int64_t channel) {
    const float* totals = call.inputs[1].f32();
    const float count = totals[c.channels + channel];
    return count == 0 ? 0.0F : totals[channel] / count;
  }

  static ChannelValues means(const Call& call, const Channels& c, const ChannelBlock& block) {
    ChannelValues values{};
    for (int64_t i = block.begin; i < block.end; ++i) values[block.local(i)] = mean(call, c, i);
    return values;
  }

  void x_gradient(const Call& call, const GradientTarget& target) const {
    const Channels c = channels_of(target.to.shape, format_);
    const float* x = call.inputs[0].f32();
    const float* dy = call.output_gradients[0].f32();
    for_blocks(c, [&](const ChannelBlock& block) {
      for_rows(c, block, [&](int64_t i, int64_t at) {
        for (int64_t j = at; j < at + c.inner; ++j)
          put(target, j, 2 * dy[i] * (x[j] - mean(call, c, i)));
      });
    });
  }

  // Through the mean: the sum over this share of x - mean, which vanishes over the whole only.
  void totals_gradient(const Call& call, const GradientTarget& target) const {
    const Channels c = channels_of(call.inputs[0].shape, format_);
    const float* x = call.inputs[0].f32();
    const float* dy = call.output_gradients[0].f32();
    for_blocks(c, [&](const ChannelBlock& block) {
      const ChannelSums sums = sum_centred(c, block, x, means(call, c, block));
      for (int64_t i = block.begin; i < block.end; ++i) {
        const float count = call.inputs[1].f32()[c.channels + i];
        const float gradient =
            count == 0 ? 0.0F : -2 * dy[i] * static_cast<float>(sums[block.local(i)]) / count;
        put(target, i, gradient);
        put(target, c.channels + i, -gradient * mean(call, c, i));
      }
    });
  }

  ImageFormat format_;
};

class ChannelStatisticsKernel final : public PlainKernel {
 public:
  void forward(const Call& call) override {
    const int64_t channels = call.outputs[0].elements();
    const bool states = !call.training && call.inputs.size() == 4 &&
                        call.inputs[2].data != nullptr && call.inputs[3].data != nullptr;
    for (size_t output = 0; output < 2; ++output)
      for (int64_t i = 0; i < channels; ++i) {
        const float count = call.inputs[0].f32()[channels + i];
        const float sum = call.inputs[output].f32()[i];
        call.outputs[output].f32()[i] = states       ? call.inputs[output + 2].f32()[i]
                                        : count == 0 ? 0.0F
                                                     : sum / count;
      }
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const int64_t channels = call.outputs[0].elements();
    for (const GradientTarget& target : targets)
      for (int64_t i = 0; i < channels; ++i) {
        const float count = call.inputs[0].f32()[channels + i];
        const float of_mean = given(call, 0, i, count);
        const float of_variance = given(call, 1, i, count);
        put(target, i, target.input == 0 ? of_mean : of_variance);
        if (target.input == 0)
          put(target, channels + i,
              -of_mean * call.outputs[0].f32()[i] - of_variance * call.outputs[1].f32()[i]);
      }
  }

 private:
  // What flows into the output, per element of the channel.
  static float given(const Call& call, size_t output, int64_t i, float count) {
    const TensorView& gradient = call.output_gradients[output];
    return gradient.data == nullptr || count == 0 ? 0.0F : gradient.f32()[i] / count;
  }
};

template <class KernelOf, class Op>
std::unique_ptr<Kernel> make_sum(const KernelSite& site) {
  return std::make_unique<KernelOf>(site.as<Op>());
}

std::unique_ptr<Kernel> make_statistics(const KernelSite&) {
  return std::make_unique<ChannelStatisticsKernel>();
}

}  // namespace

KernelEntries register_channel_statistics() {
  return {{.op = "ChannelSum", .make = make_sum<ChannelSumKernel, ChannelSum>},
          {.op = "CenteredSquareSum", .make = make_sum<CenteredSquareSumKernel, CenteredSquareSum>},
          {.op = "ChannelStatistics", .make = make_statistics}};
}

}  // namespace kerf::ops::cpu
