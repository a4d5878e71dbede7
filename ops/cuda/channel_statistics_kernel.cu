// ChannelSum, CenteredSquareSum and ChannelStatistics on a GPU.
#include "ops/cuda/bodies.cuh"
#include "ops/cuda/channel_rows.cuh"
#include "ops/cuda/cuda_workbench.h"
#include "ops/operators/channel_statistics.h"

namespace kerf::ops::cuda {
namespace {

// Totals: the sums of channels, then their numbers of elements.
struct Totals {
  const float* data;
  int64_t channels;
  KERF_DEVICE float sum(int64_t c) const { return data[c]; }
  KERF_DEVICE float count(int64_t c) const { return data[channels + c]; }
  KERF_DEVICE float mean(int64_t c) const { return count(c) == 0 ? 0.0F : sum(c) / count(c); }
};

struct SumChannel : Adding<double> {
  ChannelRows rows;
  const float* x;
  float* totals;
  KERF_DEVICE int64_t length(int64_t) const { return rows.elements(); }
  KERF_DEVICE double term(int64_t c, int64_t i) const {
    return static_cast<double>(x[rows.at(c, i)]);
  }
  KERF_DEVICE void finish(int64_t c, double sum) const {
    totals[c] = static_cast<float>(sum);
    totals[rows.channels + c] = static_cast<float>(rows.elements());
  }
};

// The numbers of elements do not depend on X.
struct SpreadOverChannel {
  ChannelRows rows;
  const float* dy;
  float* to;
  bool accumulate;
  KERF_DEVICE void operator()(int64_t i) const { put(to + i, accumulate, dy[rows.channel(i)]); }
};

struct SumCentredSquares : Adding<double> {
  ChannelRows rows;
  const float* x;
  Totals totals;
  float* squares;
  KERF_DEVICE int64_t length(int64_t) const { return rows.elements(); }
  KERF_DEVICE double term(int64_t c, int64_t i) const {
    const float apart = x[rows.at(c, i)] - totals.mean(c);
    return static_cast<double>(apart * apart);
  }
  KERF_DEVICE void finish(int64_t c, double sum) const { squares[c] = static_cast<float>(sum); }
};

struct CentredGradient {
  ChannelRows rows;
  const float* x;
  Totals totals;
  const float* dy;
  float* to;
  bool accumulate;
  KERF_DEVICE void operator()(int64_t i) const {
    const int64_t c = rows.channel(i);
    put(to + i, accumulate, 2 * dy[c] * (x[i] - totals.mean(c)));
  }
};

// Through the mean: the sum over this share of x - mean, which vanishes over the whole only.
struct TotalsGradient : Adding<double> {
  ChannelRows rows;
  const float* x;
  Totals totals;
  const float* dy;
  float* to;
  bool accumulate;
  KERF_DEVICE int64_t length(int64_t) const { return rows.elements(); }
  KERF_DEVICE double term(int64_t c, int64_t i) const {
    return static_cast<double>(x[rows.at(c, i)] - totals.mean(c));
  }
  KERF_DEVICE void finish(int64_t c, double sum) const {
    const float count = totals.count(c);
    const float gradient = count == 0 ? 0.0F : -2 * dy[c] * static_cast<float>(sum) / count;
    put(to + c, accumulate, gradient);
    put(to + rows.channels + c, accumulate, -gradient * totals.mean(c));
  }
};

// Index i is output i / channels of channel i % channels: mean, then variance.
struct Divide {
  Totals totals;
  const float* squares;
  const float* states[2];  // null: the statistics are those of the sums
  float* outputs[2];
  KERF_DEVICE void operator()(int64_t i) const {
    const int64_t c = i % totals.channels;
    const int64_t output = i / totals.channels;
    const float count = totals.count(c);
    const float sum = output == 0 ? totals.sum(c) : squares[c];
    outputs[output][c] = states[output] != nullptr ? states[output][c]
                         : count == 0              ? 0.0F
                                                   : sum / count;
  }
};

struct DivideGradient {
  Totals totals;
  const float* mean;
  const float* variance;
  const float* of_mean;  // what flows into the outputs; null: 0
  const float* of_variance;
  float* to;
  bool is_totals;  // the target; else squares
  bool accumulate;
  KERF_DEVICE static float given(const float* gradient, int64_t c, float count) {
    return gradient == nullptr || count == 0 ? 0.0F : gradient[c] / count;
  }
  KERF_DEVICE void operator()(int64_t c) const {
    const float by_mean = given(of_mean, c, totals.count(c));
    const float by_variance = given(of_variance, c, totals.count(c));
    put(to + c, accumulate, is_totals ? by_mean : by_variance);
    if (is_totals)
      put(to + totals.channels + c, accumulate, -by_mean * mean[c] - by_variance * variance[c]);
  }
};

class ChannelSumKernel final : public PlainKernel {
 public:
  explicit ChannelSumKernel(const KernelSite& site)
      : queue_(queue_of(site)), format_(site.as<ChannelSum>().images()) {}

  void forward(const Call& call) override {
    const ChannelRows rows = channel_rows(call.inputs[0].shape, format_);
    reduce_rows(queue_, rows.channels,
                SumChannel{{}, rows, call.inputs[0].f32(), call.outputs[0].f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    for (const GradientTarget& target : targets)
      for_each(
          queue_, target.to.elements(),
          SpreadOverChannel{channel_rows(target.to.shape, format_), call.output_gradients[0].f32(),
                            target.to.f32(), target.accumulate});
  }

 private:
  const Queue& queue_;
  ImageFormat format_;
};

class CenteredSquareSumKernel final : public PlainKernel {
 public:
  explicit CenteredSquareSumKernel(const KernelSite& site)
      : queue_(queue_of(site)), format_(site.as<CenteredSquareSum>().images()) {}

  void forward(const Call& call) override {
    const ChannelRows rows = channel_rows(call.inputs[0].shape, format_);
    reduce_rows(queue_, rows.channels,
                SumCentredSquares{{},
                                  rows,
                                  call.inputs[0].f32(),
                                  {call.inputs[1].f32(), rows.channels},
                                  call.outputs[0].f32()});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const ChannelRows rows = channel_rows(call.inputs[0].shape, format_);
    const Totals totals{call.inputs[1].f32(), rows.channels};
    const float* x = call.inputs[0].f32();
    const float* dy = call.output_gradients[0].f32();
    for (const GradientTarget& target : targets)
      if (target.input == 0)
        for_each(queue_, target.to.elements(),
                 CentredGradient{rows, x, totals, dy, target.to.f32(), target.accumulate});
      else
        reduce_rows(queue_, rows.channels,
                    TotalsGradient{{}, rows, x, totals, dy, target.to.f32(), target.accumulate});
  }

 private:
  const Queue& queue_;
  ImageFormat format_;
};

class ChannelStatisticsKernel final : public PlainKernel {
 public:
  explicit ChannelStatisticsKernel(const KernelSite& site) : queue_(queue_of(site)) {}

  void forward(const Call& call) override {
    const int64_t channels = call.outputs[0].elements();
    const bool states = !call.training && call.inputs.size() == 4 &&
                        call.inputs[2].data != nullptr && call.inputs[3].data != nullptr;
    for_each(
        queue_, 2 * channels,
        Divide{{call.inputs[0].f32(), channels},
               call.inputs[1].f32(),
               {states ? call.inputs[2].f32() : nullptr, states ? call.inputs[3].f32() : nullptr},
               {call.outputs[0].f32(), call.outputs[1].f32()}});
  }

 protected:
  void gradient(const Call& call, std::span<const GradientTarget> targets) override {
    const int64_t channels = call.outputs[0].elements();
    for (const GradientTarget& target : targets)
      for_each(queue_, channels,
               DivideGradient{{call.inputs[0].f32(), channels},
                              call.outputs[0].f32(),
                              call.outputs[1].f32(),
                              call.output_gradients[0].f32(),
                              call.output_gradients[1].f32(),
                              target.to.f32(),
                              target.input == 0,
                              target.accumulate});
  }

 private:
  const Queue& queue_;
};

template <class T>
std::unique_ptr<Kernel> make_statistics(const KernelSite& site) {
  return std::make_unique<T>(site);
}

}  // namespace

KernelEntries register_channel_statistics() {
  return {{.op = "ChannelSum", .make = make_statistics<ChannelSumKernel>},
          {.op = "CenteredSquareSum", .make = make_statistics<CenteredSquareSumKernel>},
          {.op = "ChannelStatistics", .make = make_statistics<ChannelStatisticsKernel>}};
}

}  // namespace kerf::ops::cuda
