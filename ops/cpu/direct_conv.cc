#include "ops/cpu/direct_conv.h"

#include <algorithm>
#include <cstring>

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

// Where in a padded sample each tap of the window of output 0 lies.
const int64_t* tap_offsets(const Planes& planes, Workspace& workspace) {
  int64_t* offsets = workspace.take<int64_t>(planes.taps());
  int64_t* next = offsets;
  for (int64_t c = 0; c < planes.from; ++c)
    for (int64_t ky = 0; ky < planes.kernel[0]; ++ky)
      for (int64_t kx = 0; kx < planes.kernel[1]; ++kx)
        *next++ = c * planes.padded_plane() + ky * planes.dilations[0] * planes.width() +
                  kx * planes.dilations[1];
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
  const float* w = nullptr;
  const float* bias = nullptr;
};

int64_t rounded_filters(const Planes& planes) { return rounded_up(planes.to, kFilterBlock); }

// weight(to, from, ky, kx) is the entry of the filter.
template <class Weight>
PackedFilters pack_filters(const Planes& planes, const float* bias, Workspace& workspace,
                           const Weight& weight) {
  const int64_t filters = rounded_filters(planes);
  float* w = workspace.take<float>(filters * planes.taps());
  float* biases = workspace.take<float>(filters);
  std::fill_n(w, filters * planes.taps(), 0.0F);
  std::fill_n(biases, filters, 0.0F);
  for (int64_t f = 0; f < planes.to; ++f) {
    if (bias != nullptr) biases[f] = bias[f];
    float* to = w + f / kFilterBlock * kFilterBlock * planes.taps() + f % kFilterBlock;
    for (int64_t c = 0; c < planes.from; ++c)
      for (int64_t ky = 0; ky < planes.kernel[0]; ++ky)
        for (int64_t kx = 0; kx < planes.kernel[1]; ++kx, to += kFilterBlock)
          *to = weight(f, c, ky, kx);
  }
  return {w, biases};
}

void copy_rows(const Planes& planes, const float* wide, float* to) {
  for (int64_t y = 0; y < planes.output[0]; ++y)
    std::memcpy(to + y * planes.output[1], wide + y * planes.width(),
                static_cast<size_t>(planes.output[1]) * sizeof(float));
}

// Of one piece: a padded sample, and a block of outputs with what lies between their rows.
struct CorrelationRoom {
  explicit CorrelationRoom(const Planes& planes)
      : padded(planes.padded_sample()), wide(kFilterBlock * planes.wide_plane()) {}
  size_t bytes() const { return piece_bytes<float>(padded) + piece_bytes<float>(wide); }

  int64_t padded;
  int64_t wide;
};

size_t correlation_bytes(const Planes& planes, int threads) {
  const int64_t filters = rounded_filters(planes);
  return piece_bytes<float>(filters * planes.taps()) + piece_bytes<float>(filters) +
         piece_bytes<int64_t>(planes.taps()) +
         static_cast<size_t>(threads) * CorrelationRoom(planes).bytes();
}

void correlate_samples(const Planes& planes, const PackedFilters& filters, int64_t samples,
                       const float* from, float* to, Workspace& workspace) {
  const int64_t* offsets = tap_offsets(planes, workspace);
  const int64_t from_sample = planes.from * planes.input[0] * planes.input[1];
  const int64_t to_plane = planes.output[0] * planes.output[1];
  const CorrelationRoom room(planes);
  const auto threads = static_cast<int64_t>(workspace.bytes_left() / room.bytes());
  auto* rooms = workspace.take<std::byte>(threads * static_cast<int64_t>(room.bytes()));
  simd::parallel_numbered_pieces(samples, 2, [&](int64_t piece, int64_t begin, int64_t end) {
    KERF_CHECK(piece < threads, "workspace for {} threads, a piece {}", threads, piece);
    Workspace own({rooms + piece * static_cast<int64_t>(room.bytes()), room.bytes()});
    float* padded = own.take<float>(room.padded);
    float* wide = own.take<float>(room.wide);
    for (int64_t n = begin; n < end; ++n) {
      pad_sample(planes, from + n * from_sample, padded);
      for (int64_t f = 0; f < planes.to; f += kFilterBlock) {
        correlate({padded, offsets, planes.taps(), filters.w + f * planes.taps(), filters.bias + f,
                   wide, planes.wide_plane(), planes.count()});
        for (int64_t i = f; i < std::min(f + kFilterBlock, planes.to); ++i)
          copy_rows(planes, wide + (i - f) * planes.wide_plane(),
                    to + (n * planes.to + i) * to_plane);
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
                         float* y, Workspace& workspace) {
  const Planes planes = planes_of(p);
  const auto filters =
      pack_filters(planes, bias, workspace, [&](int64_t f, int64_t c, int64_t ky, int64_t kx) {
        return w[((f * p.channels + c) * planes.kernel[0] + ky) * planes.kernel[1] + kx];
      });
  correlate_samples(planes, filters, p.samples, x, y, workspace);
}

void direct_conv_input_gradient(const ConvProblem& p, const float* w, const float* dy, float* dx,
                                Workspace& workspace) {
  const Planes planes = mirrored_planes_of(p);
  const auto filters =
      pack_filters(planes, nullptr, workspace, [&](int64_t c, int64_t f, int64_t ky, int64_t kx) {
        const int64_t filter = f * p.channels + c;
        return w[(filter * planes.kernel[0] + planes.kernel[0] - 1 - ky) * planes.kernel[1] +
                 planes.kernel[1] - 1 - kx];
      });
  correlate_samples(planes, filters, p.samples, dy, dx, workspace);
}

void direct_conv_weight_gradient(const ConvProblem& p, const float* x, const float* dy, float* dw,
                                 bool accumulate, Workspace& workspace) {
  const Planes planes = planes_of(p);
  const int64_t* offsets = tap_offsets(planes, workspace);
  const int64_t filters = rounded_filters(planes);
  const int64_t wide_sample = filters * planes.wide_plane();
  const int64_t x_sample = planes.from * planes.input[0] * planes.input[1];
  const int64_t dy_sample = planes.to * planes.output[0] * planes.output[1];
  auto* padded = workspace.take<float>(kSamplesAtOnce * planes.padded_sample());
  auto* wide = workspace.take<float>(kSamplesAtOnce * wide_sample);
  auto* sums = workspace.take<float>(filters * planes.taps());
  std::fill_n(sums, filters * planes.taps(), 0.0F);
  for (int64_t first = 0; first < p.samples; first += kSamplesAtOnce) {
    const int64_t some = std::min(kSamplesAtOnce, p.samples - first);
    simd::parallel_pieces(some, 4, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        pad_sample(planes, x + (first + n) * x_sample, padded + n * planes.padded_sample());
        widen_sample(planes, filters, dy + (first + n) * dy_sample, wide + n * wide_sample);
      }
    });
    simd::parallel_pieces(filters / kFilterBlock, 1, [&](int64_t begin, int64_t end) {
      for (int64_t f = begin * kFilterBlock; f < end * kFilterBlock; f += kFilterBlock)
        sum_taps({wide + f * planes.wide_plane(), planes.wide_plane(), wide_sample, padded,
                  planes.padded_sample(), offsets, planes.taps(), some, planes.count(),
                  sums + f * planes.taps(), planes.taps()});
    });
  }
  simd::copy_or_add(sums, p.filters * planes.taps(), dw, accumulate);
}

size_t direct_conv_workspace_bytes(const ConvProblem& p, int threads) {
  const Planes planes = planes_of(p);
  const int64_t filters = rounded_filters(planes);
  const size_t weight_gradient =
      piece_bytes<int64_t>(planes.taps()) +
      piece_bytes<float>(kSamplesAtOnce * planes.padded_sample()) +
      piece_bytes<float>(kSamplesAtOnce * filters * planes.wide_plane()) +
      piece_bytes<float>(filters * planes.taps());
  return std::max({weight_gradient, correlation_bytes(planes, threads),
                   correlation_bytes(mirrored_planes_of(p), threads)});
}

}  // namespace kerf::ops::cpu
