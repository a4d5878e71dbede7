#include "ops/cpu/channel_rows.h"

#include "ops/simd/lanes.h"

namespace kerf::ops::cpu {

// ---- one row of one channel

KERF_CLONES float sum_row_centred_squares(const float* x, float mean, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
}

KERF_CLONES void map_row(const float* x, float mean, float scale, float shift, int64_t count,
                         float* y) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - mean) * scale + shift;
}

namespace {

KERF_CLONES float sum_row_centred(const float* x, float mean, int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return x[i] - mean; });
}

KERF_CLONES float sum_row_centred_products(const float* dy, const float* x, float mean,
                                           int64_t count) {
  return simd::sum_in_lanes(count, [=](int64_t i) { return dy[i] * (x[i] - mean); });
}

KERF_CLONES void map_row_back(const float* dy, float scale, const float* x, float mean, float slope,
                              float shift, int64_t count, float* dx) {
  if (dy == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) dx[i] = (x[i] - mean) * slope + shift;
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) dx[i] = dy[i] * scale + ((x[i] - mean) * slope + shift);
}

// ---- channels side by side: `width` of them, lines of which are `stride` apart

struct Lines {
  int64_t count = 0;
  int64_t stride = 0;
  int64_t width = 0;
};

// So many lines are summed in float before they go to the sums in double: conversions cost more
// than sums.
constexpr int64_t kFloatLines = 16;

// term(offset, place in the line)
template <class Term>
[[gnu::always_inline]] inline void add_terms_of(const Lines& lines, int64_t width, const Term& term,
                                                double* sums) {
  for (int64_t first = 0; first < lines.count; first += kFloatLines) {
    float some[kChannelBlock] = {};
    const int64_t last = std::min(first + kFloatLines, lines.count);
    for (int64_t n = first; n < last; ++n)
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) some[i] += term(n * lines.stride + i, i);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) sums[i] += double{some[i]};
  }
}

// A width that the compiler knows is kept in registers.
template <class Term>
[[gnu::always_inline]] inline void add_terms(const Lines& lines, const Term& term, double* sums) {
  if (lines.width == kChannelBlock) return add_terms_of(lines, kChannelBlock, term, sums);
  add_terms_of(lines, lines.width, term, sums);
}

KERF_CLONES void add_lines(const Lines& lines, const float* x, double* sums) {
  add_terms(
      lines, [=](int64_t at, int64_t) { return x[at]; }, sums);
}

KERF_CLONES void add_lines_centred(const Lines& lines, const float* x, const float* mean,
                                   double* sums) {
  add_terms(
      lines, [=](int64_t at, int64_t i) { return x[at] - mean[i]; }, sums);
}

KERF_CLONES void add_lines_centred_squares(const Lines& lines, const float* x, const float* mean,
                                           double* sums) {
  add_terms(
      lines, [=](int64_t at, int64_t i) { return (x[at] - mean[i]) * (x[at] - mean[i]); }, sums);
}

KERF_CLONES void add_lines_centred_products(const Lines& lines, const float* dy, const float* x,
                                            const float* mean, double* sums) {
  add_terms(
      lines, [=](int64_t at, int64_t i) { return dy[at] * (x[at] - mean[i]); }, sums);
}

KERF_CLONES void map_lines(const Lines& lines, const float* x, const ChannelLine& line, float* y) {
  for (int64_t n = 0; n < lines.count; ++n, x += lines.stride, y += lines.stride)
#pragma omp simd
    for (int64_t i = 0; i < lines.width; ++i)
      y[i] = (x[i] - line.mean[static_cast<size_t>(i)]) * line.scale[static_cast<size_t>(i)] +
             line.shift[static_cast<size_t>(i)];
}

KERF_CLONES void map_lines_back(const Lines& lines, const float* dy, const ChannelValues& scale,
                                const float* x, const ChannelLine& line, float* dx) {
  for (int64_t n = 0; n < lines.count; ++n, x += lines.stride, dx += lines.stride) {
#pragma omp simd
    for (int64_t i = 0; i < lines.width; ++i) {
      const auto at = static_cast<size_t>(i);
      const float own = (x[i] - line.mean[at]) * line.scale[at] + line.shift[at];
      dx[i] = dy == nullptr ? own : dy[i] * scale[at] + own;
    }
    if (dy != nullptr) dy += lines.stride;
  }
}

// Calls work(lines, offset) for the samples that go together and for the rest.
template <class Work>
void for_lines(const Channels& c, const ChannelBlock& block, const Work& work) {
  const int64_t samples = c.together();
  const int64_t full = c.samples / samples;
  work(Lines{full, samples * c.channels, samples * block.size()}, block.begin);
  work(Lines{c.samples - full * samples, c.channels, block.size()},
       full * samples * c.channels + block.begin);
}

ChannelValues repeated(const Channels& c, const ChannelBlock& block, const ChannelValues& values) {
  ChannelValues all = values;
  const auto size = static_cast<size_t>(block.size());
  const auto count = size * static_cast<size_t>(c.together());
  for (size_t i = size; i < count; ++i) all[i] = values[i - i / size * size];
  return all;
}

ChannelLine repeated(const Channels& c, const ChannelBlock& block, const ChannelLine& line) {
  return {repeated(c, block, line.mean), repeated(c, block, line.scale),
          repeated(c, block, line.shift)};
}

// row(channel's place, offset) sums a row, lines(lines, offset, sums) adds lines to sums.
template <class Row, class AddLines>
ChannelSums sums_of(const Channels& c, const ChannelBlock& block, const Row& row,
                    const AddLines& add) {
  ChannelSums sums{};
  if (!c.side_by_side()) {
    for_rows(c, block, [&](int64_t i, int64_t at) {
      sums[block.local(i)] += static_cast<double>(row(block.local(i), at));
    });
    return sums;
  }
  for_lines(c, block, [&](const Lines& lines, int64_t at) { add(lines, at, sums.data()); });
  const auto size = static_cast<size_t>(block.size());
  for (size_t i = size; i < size * static_cast<size_t>(c.together()); ++i)
    sums[i % size] += sums[i];
  return sums;
}

}  // namespace

Channels channels_of(const Shape& shape, ImageFormat format) {
  const Shape onnx = onnx_shape(format, shape);
  Channels result{onnx[0], onnx[1]};
  for (int axis = 2; axis < onnx.rank(); ++axis) result.inner *= onnx[axis];
  if (format == ImageFormat::kChannelsLast) return {result.count(), result.channels, 1};
  return result;
}

ChannelSums sum_channels(const Channels& c, const ChannelBlock& block, const float* x) {
  return sums_of(
      c, block, [&](size_t, int64_t at) { return simd::sum_of(x + at, c.inner); },
      [&](const Lines& lines, int64_t at, double* sums) { add_lines(lines, x + at, sums); });
}

ChannelSums sum_centred(const Channels& c, const ChannelBlock& block, const float* x,
                        const ChannelValues& mean) {
  const ChannelValues means = repeated(c, block, mean);
  return sums_of(
      c, block, [&](size_t i, int64_t at) { return sum_row_centred(x + at, mean[i], c.inner); },
      [&](const Lines& lines, int64_t at, double* sums) {
        add_lines_centred(lines, x + at, means.data(), sums);
      });
}

ChannelSums sum_centred_squares(const Channels& c, const ChannelBlock& block, const float* x,
                                const ChannelValues& mean) {
  const ChannelValues means = repeated(c, block, mean);
  return sums_of(
      c, block,
      [&](size_t i, int64_t at) { return sum_row_centred_squares(x + at, mean[i], c.inner); },
      [&](const Lines& lines, int64_t at, double* sums) {
        add_lines_centred_squares(lines, x + at, means.data(), sums);
      });
}

ChannelSums sum_centred_products(const Channels& c, const ChannelBlock& block, const float* dy,
                                 const float* x, const ChannelValues& mean) {
  const ChannelValues means = repeated(c, block, mean);
  return sums_of(
      c, block,
      [&](size_t i, int64_t at) {
        return sum_row_centred_products(dy + at, x + at, mean[i], c.inner);
      },
      [&](const Lines& lines, int64_t at, double* sums) {
        add_lines_centred_products(lines, dy + at, x + at, means.data(), sums);
      });
}

void map_channels(const Channels& c, const ChannelBlock& block, const float* x,
                  const ChannelLine& line, float* y) {
  if (!c.side_by_side())
    return for_rows(c, block, [&](int64_t channel, int64_t at) {
      const size_t i = block.local(channel);
      map_row(x + at, line.mean[i], line.scale[i], line.shift[i], c.inner, y + at);
    });
  const ChannelLine all = repeated(c, block, line);
  for_lines(c, block,
            [&](const Lines& lines, int64_t at) { map_lines(lines, x + at, all, y + at); });
}

void map_channels_back(const Channels& c, const ChannelBlock& block, const float* dy,
                       const ChannelValues& scale, const float* x, const ChannelLine& line,
                       float* dx) {
  const auto from = [&](int64_t at) { return dy == nullptr ? nullptr : dy + at; };
  if (!c.side_by_side())
    return for_rows(c, block, [&](int64_t channel, int64_t at) {
      const size_t i = block.local(channel);
      map_row_back(from(at), scale[i], x + at, line.mean[i], line.scale[i], line.shift[i], c.inner,
                   dx + at);
    });
  const ChannelLine all = repeated(c, block, line);
  const ChannelValues scales = repeated(c, block, scale);
  for_lines(c, block, [&](const Lines& lines, int64_t at) {
    map_lines_back(lines, from(at), scales, x + at, all, dx + at);
  });
}

void add_channel_sums(ImageFormat format, const TensorView& dy, float* to, bool accumulate) {
  const Channels c = channels_of(dy.shape, format);
  for_blocks(c, [&](const ChannelBlock& block) {
    const ChannelSums sums = sum_channels(c, block, dy.f32());
    for (int64_t i = block.begin; i < block.end; ++i)
      to[i] = (accumulate ? to[i] : 0.0F) + static_cast<float>(sums[block.local(i)]);
  });
}

}  // namespace kerf::ops::cpu
