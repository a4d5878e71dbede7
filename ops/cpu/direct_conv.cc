#include "ops/cpu/direct_conv.h"

#include <cstring>
#include <vector>

#include "ops/cpu/correlate.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

constexpr int64_t kSamplesAtOnce = 16;  // whose padded forms stay in the L2 cache

int64_t rounded_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

// One correlation of planes: `from` channels of input extents, `to` channels of output extents.
struct Planes {
  int64_t from = 0;
  int64_t to = 0;
  Extent2 input{};
  Extent2 output{};
  Extent2 kernel{};
  Extent2 dilations{};
  Extent2 pads{};  // at the beginning; the end has what the windows reach

  int64_t width() const { return output[1] + (kernel[1] - 1) * dilations[1]; }
  int64_t height() const { return output[0] + (kernel[0] - 1) * dilations[0]; }
  int64_t padded_plane() const { return height() * width(); }
  int64_t padded_sample() const { return from * padded_plane() + kOverhang; }
  int64_t count() const { return (output[0] - 1) * width() + output[1]; }
  int64_t wide_plane() const { return count() + kOverhang; }
  int64_t taps() const { return from * kernel[0] * kernel[1]; }
};

Planes planes_of(const ConvProblem& p) {
  const Window& w = p.window;
  return {p.channels, p.filters, w.input, w.output, w.kernel, w.dilations, w.pads_begin};
}

// The input gradient is the correlation of dy, padded by what the windows reach, with mirrored
// filters.
Planes mirrored_planes_of(const ConvProblem& p) {
  const Window& w = p.window;
  Planes planes{p.filters, p.channels, w.output, w.input, w.kernel, w.dilations, {}};
  for (size_t i = 0; i < 2; ++i)
    planes.pads[i] = (w.kernel[i] - 1) * w.dilations[i] - w.pads_begin[i];
  return planes;
}

std::vector<int64_t> tap_offsets(const Planes& planes) {
  std::vector<int64_t> offsets;
  for (int64_t c = 0; c < planes.from; ++c)
    for (int64_t ky = 0; ky < planes.kernel[0]; ++ky)
      for (int64_t kx = 0; kx < planes.kernel[1]; ++kx)
        offsets.push_back(c * planes.padded_plane() + ky * planes.dilations[0] * planes.width() +
                          kx * planes.dilations[1]);
  return offsets;
}

// Writes a sample's planes with zeros around them. Rows and columns beyond the windows' reach are
// left out.
void pad_sample(const Planes& planes, const float* from, float* to) {
  std::fill_n(to, planes.padded_sample(), 0.0F);
  const int64_t columns = std::min(planes.input[1], planes.width() - planes.pads[1]);
  const int64_t rows = std::min(planes.input[0], planes.height() - planes.pads[0]);
  for (int64_t c = 0; c < planes.from; ++c)
    for (int64_t y = 0; y < rows; ++y)
      std::memcpy(
          to + c * planes.padded_plane() + (y + planes.pads[0]) * planes.width() + planes.pads[1],
          from + (c * planes.input[0] + y) * planes.input[1],
          static_cast<size_t>(columns) * sizeof(float));
}

// Blocks of kFilterBlock output channels, taps outside: what correlate() wants.
struct PackedFilters {
  std::vector<float> w;
  std::vector<float> bias;
};

// weight(to, from, ky, kx) is the entry of the filter.
template <class Weight>
PackedFilters pack_filters(const Planes& planes, const float* bias, const Weight& weight) {
  const int64_t filters = rounded_up(planes.to, kFilterBlock);
  PackedFilters packed{std::vector<float>(static_cast<size_t>(filters * planes.taps())),
                       std::vector<float>(static_cast<size_t>(filters))};
  for (int64_t f = 0; f < planes.to; ++f) {
    if (bias != nullptr) packed.bias[static_cast<size_t>(f)] = bias[f];
    float* to =
        packed.w.data() + f / kFilterBlock * kFilterBlock * planes.taps() + f % kFilterBlock;
    for (int64_t c = 0; c < planes.from; ++c)
      for (int64_t ky = 0; ky < planes.kernel[0]; ++ky)
        for (int64_t kx = 0; kx < planes.kernel[1]; ++kx, to += kFilterBlock)
          *to = weight(f, c, ky, kx);
  }
  return packed;
}

void copy_rows(const Planes& planes, const float* wide, float* to, bool accumulate) {
  for (int64_t y = 0; y < planes.output[0]; ++y) {
    const float* from = wide + y * planes.width();
    float* row = to + y * planes.output[1];
    if (accumulate)
      for (int64_t x = 0; x < planes.output[1]; ++x) row[x] += from[x];
    else
      std::memcpy(row, from, static_cast<size_t>(planes.output[1]) * sizeof(float));
  }
}

float* floats(runtime::Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

runtime::Buffer scratch(runtime::Device& device, int64_t count) {
  return device.allocate(static_cast<size_t>(count) * sizeof(float));
}

// Floats of scratch memory: padded inputs, and outputs with what lies between their rows.
struct ScratchSizes {
  int64_t padded = 0;
  int64_t wide = 0;
  size_t bytes() const { return static_cast<size_t>(padded + wide) * sizeof(float); }
};

// Of each thread.
ScratchSizes correlation_scratch(const Planes& planes) {
  return {planes.padded_sample(), kFilterBlock * planes.wide_plane()};
}

ScratchSizes weight_gradient_scratch(const Planes& planes) {
  const int64_t filters = rounded_up(planes.to, kFilterBlock);
  return {kSamplesAtOnce * planes.padded_sample(), kSamplesAtOnce * filters * planes.wide_plane()};
}

void correlate_samples(const Planes& planes, const PackedFilters& filters, int64_t samples,
                       const float* from, float* to, bool accumulate, runtime::Device& device) {
  const auto offsets = tap_offsets(planes);
  const int64_t from_sample = planes.from * planes.input[0] * planes.input[1];
  const int64_t to_plane = planes.output[0] * planes.output[1];
  simd::parallel_pieces(samples, 2, [&](int64_t begin, int64_t end) {
    const ScratchSizes sizes = correlation_scratch(planes);
    runtime::Buffer padded = scratch(device, sizes.padded);
    runtime::Buffer wide = scratch(device, sizes.wide);
    for (int64_t n = begin; n < end; ++n) {
      pad_sample(planes, from + n * from_sample, floats(padded));
      for (int64_t f = 0; f < planes.to; f += kFilterBlock) {
        correlate({floats(padded), offsets.data(), planes.taps(),
                   filters.w.data() + f * planes.taps(), filters.bias.data() + f, floats(wide),
                   planes.wide_plane(), planes.count()});
        for (int64_t i = f; i < std::min(f + kFilterBlock, planes.to); ++i)
          copy_rows(planes, floats(wide) + (i - f) * planes.wide_plane(),
                    to + (n * planes.to + i) * to_plane, accumulate);
      }
    }
  });
}

// dy's rows as far apart as the padded input's, with zeros between and after them.
void widen_sample(const Planes& planes, int64_t filters, const float* dy, float* wide) {
  std::fill_n(wide, filters * planes.wide_plane(), 0.0F);
  for (int64_t f = 0; f < planes.to; ++f)
    for (int64_t y = 0; y < planes.output[0]; ++y)
      std::memcpy(wide + f * planes.wide_plane() + y * planes.width(),
                  dy + (f * planes.output[0] + y) * planes.output[1],
                  static_cast<size_t>(planes.output[1]) * sizeof(float));
}

}  // namespace

bool suits_direct_conv(const ConvProblem& p) {
  const Planes back = mirrored_planes_of(p);
  return p.groups == 1 && p.window.strides == Extent2{1, 1} && p.channels < 16 && p.filters <= 32 &&
         back.pads[0] >= 0 && back.pads[1] >= 0;
}

void direct_conv_forward(const ConvProblem& p, const float* x, const float* w, const float* bias,
                         float* y, runtime::Device& device) {
  const Planes planes = planes_of(p);
  const auto filters =
      pack_filters(planes, bias, [&](int64_t f, int64_t c, int64_t ky, int64_t kx) {
        return w[((f * p.channels + c) * planes.kernel[0] + ky) * planes.kernel[1] + kx];
      });
  correlate_samples(planes, filters, p.samples, x, y, false, device);
}

void direct_conv_input_gradient(const ConvProblem& p, const float* w, const float* dy, float* dx,
                                bool accumulate, runtime::Device& device) {
  const Planes planes = mirrored_planes_of(p);
  const auto filters =
      pack_filters(planes, nullptr, [&](int64_t c, int64_t f, int64_t ky, int64_t kx) {
        const int64_t filter = f * p.channels + c;
        return w[(filter * planes.kernel[0] + planes.kernel[0] - 1 - ky) * planes.kernel[1] +
                 planes.kernel[1] - 1 - kx];
      });
  correlate_samples(planes, filters, p.samples, dy, dx, accumulate, device);
}

void direct_conv_weight_gradient(const ConvProblem& p, const float* x, const float* dy, float* dw,
                                 bool accumulate, runtime::Device& device) {
  const Planes planes = planes_of(p);
  const auto offsets = tap_offsets(planes);
  const int64_t filters = rounded_up(p.filters, kFilterBlock);
  const int64_t wide_sample = filters * planes.wide_plane();
  const int64_t x_sample = planes.from * planes.input[0] * planes.input[1];
  const int64_t dy_sample = planes.to * planes.output[0] * planes.output[1];
  const ScratchSizes sizes = weight_gradient_scratch(planes);
  runtime::Buffer padded = scratch(device, sizes.padded);
  runtime::Buffer wide = scratch(device, sizes.wide);
  std::vector<float> sums(static_cast<size_t>(filters * planes.taps()));
  for (int64_t first = 0; first < p.samples; first += kSamplesAtOnce) {
    const int64_t some = std::min(kSamplesAtOnce, p.samples - first);
    simd::parallel_pieces(some, 4, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        pad_sample(planes, x + (first + n) * x_sample, floats(padded) + n * planes.padded_sample());
        widen_sample(planes, filters, dy + (first + n) * dy_sample, floats(wide) + n * wide_sample);
      }
    });
    simd::parallel_pieces(filters / kFilterBlock, 1, [&](int64_t begin, int64_t end) {
      for (int64_t f = begin * kFilterBlock; f < end * kFilterBlock; f += kFilterBlock)
        sum_taps({floats(wide) + f * planes.wide_plane(), planes.wide_plane(), wide_sample,
                  floats(padded), planes.padded_sample(), offsets.data(), planes.taps(), some,
                  planes.count(), sums.data() + f * planes.taps(), planes.taps()});
    });
  }
  simd::copy_or_add(sums.data(), p.filters * planes.taps(), dw, accumulate);
}

size_t direct_conv_workspace_bytes(const ConvProblem& p, int threads) {
  const size_t correlations = std::max(correlation_scratch(planes_of(p)).bytes(),
                                       correlation_scratch(mirrored_planes_of(p)).bytes());
  return std::max(static_cast<size_t>(threads) * correlations,
                  weight_gradient_scratch(planes_of(p)).bytes());
}

}  // namespace kerf::ops::cpu
