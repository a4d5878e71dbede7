#include "ops/cpu/narrow_conv.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/cpu/tap_sums.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

constexpr int64_t kSamplesAtOnce = 16;  // whose padded forms stay in the L2 cache
constexpr int64_t kMostLanes = 16;

int64_t divided_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }

// `count` in blocks of equal size, at most kMostSums, of which the last may overlap the one before.
struct Blocks {
  explicit Blocks(int64_t count)
      : number(divided_up(count, kMostSums)), size(divided_up(count, number)), end(count) {}
  int64_t begin(int64_t block) const { return std::min(block * size, end - size); }

  int64_t number;
  int64_t size;
  int64_t end;
};

// The convolution with `together` neighbouring pixels taken for one.
struct Geometry {
  explicit Geometry(const ConvProblem& p) : window(p.window), channels(p.channels) {
    const Window& w = window;
    if (w.dilations[1] == 1 && w.strides[1] <= w.kernel[1])
      for (together = std::max<int64_t>(lanes() / p.filters, 1); w.output[1] % together != 0;)
        --together;
    filters = together * p.filters;
    vectors = divided_up(filters, lanes());
    columns = w.output[1] / together;
    pixel_stride = together * w.strides[1] * channels;
    const bool dense = w.dilations[1] == 1;
    runs = w.kernel[0] * (dense ? 1 : w.kernel[1]);
    run_width = dense ? w.kernel[1] + (together - 1) * w.strides[1] : 1;
    taps = run_width * channels;
    for (size_t i = 0; i < 2; ++i) {
      const int64_t reach =
          (w.output[i] - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1;
      padded = padded || w.pads_begin[i] > 0 || reach > w.input[i];
      extent[i] = reach;
    }
    if (!padded) extent = w.input;
  }

  int64_t row() const { return extent[1] * channels; }
  int64_t sample() const { return extent[0] * row(); }
  int64_t input_sample() const { return window.input[0] * window.input[1] * channels; }
  int64_t output_row() const { return columns * filters; }
  int64_t output_sample() const { return window.output[0] * output_row(); }
  int64_t run_offset(int64_t run) const {
    if (runs == window.kernel[0]) return run * window.dilations[0] * row();
    return run / window.kernel[1] * window.dilations[0] * row() +
           run % window.kernel[1] * window.dilations[1] * channels;
  }
  int64_t weights_of_vector() const { return runs * taps * lanes(); }

  Window window;
  int64_t channels;
  int64_t together = 1;
  int64_t filters = 0;  // of all pixels together
  int64_t vectors = 0;  // that these make
  int64_t columns = 0;  // of the output
  int64_t pixel_stride = 0;
  int64_t runs = 0;       // stretches of a window
  int64_t run_width = 0;  // pixels of one
  int64_t taps = 0;       // numbers of one
  bool padded = false;
  Extent2 extent{};  // of the input that windows see, padding included
};

// Writes a sample's rows with zeros around them. Rows and columns beyond the windows' reach are
// left out.
void pad_sample(const Geometry& s, const float* from, float* to) {
  const Window& w = s.window;
  std::fill_n(to, s.sample(), 0.0F);
  const int64_t columns = std::min(w.input[1], s.extent[1] - w.pads_begin[1]);
  const int64_t rows = columns < 1 ? 0 : std::min(w.input[0], s.extent[0] - w.pads_begin[0]);
  for (int64_t y = 0; y < rows; ++y)
    std::memcpy(to + (y + w.pads_begin[0]) * s.row() + w.pads_begin[1] * s.channels,
                from + y * w.input[1] * s.channels,
                static_cast<size_t>(columns * s.channels) * sizeof(float));
}

// Calls visit(place among the packed weights or sums, place among w) for every weight of every
// pixel; weights of one vector after the other, run by run, tap by tap.
template <class Visit>
void for_weights(const Geometry& s, const Visit& visit) {
  const Window& w = s.window;
  const int64_t filters = s.filters / s.together;
  const bool dense = s.runs == w.kernel[0];
  for (int64_t lane = 0; lane < s.filters; ++lane)
    for (int64_t run = 0; run < s.runs; ++run)
      for (int64_t tap = 0; tap < s.taps; ++tap) {
        const int64_t ky = dense ? run : run / w.kernel[1];
        const int64_t kx =
            dense ? tap / s.channels - lane / filters * w.strides[1] : run % w.kernel[1];
        if (kx < 0 || kx >= w.kernel[1]) continue;
        const int64_t of_filter = lane % filters * s.channels + tap % s.channels;
        visit(lane / lanes() * s.weights_of_vector() + (run * s.taps + tap) * lanes() +
                  lane % lanes(),
              (of_filter * w.kernel[0] + ky) * w.kernel[1] + kx);
      }
}

// ---- forward

struct ForwardRoom {
  explicit ForwardRoom(const Geometry& s)
      : padded(s.padded ? s.sample() : 0), block(kMostSums * lanes()) {}
  size_t bytes() const { return piece_bytes<float>(padded) + piece_bytes<float>(block); }

  int64_t padded;
  int64_t block;
};

struct ForwardWeights {
  const float* w = nullptr;
  const float* start = nullptr;  // the bias
  const Run* runs = nullptr;
};

ForwardWeights pack_forward(const Geometry& s, const float* w, const float* bias,
                            Workspace& workspace) {
  float* packed = workspace.take<float>(s.vectors * s.weights_of_vector());
  float* start = workspace.take<float>(s.vectors * lanes());
  Run* runs = workspace.take<Run>(s.runs);
  std::fill_n(packed, s.vectors * s.weights_of_vector(), 0.0F);
  std::fill_n(start, s.vectors * lanes(), 0.0F);
  for_weights(s, [&](int64_t at, int64_t from) { packed[at] = w[from]; });
  for (int64_t lane = 0; bias != nullptr && lane < s.filters; ++lane)
    start[lane] = bias[lane % (s.filters / s.together)];
  for (int64_t run = 0; run < s.runs; ++run)
    runs[run] = {s.run_offset(run), run * s.taps * lanes()};
  return {packed, start, runs};
}

// One sample. What is written beyond a pixel's filters is the next pixel's, and is written again;
// but not beyond the sample.
void forward_sample(const Geometry& s, const ForwardWeights& weights, const float* x, float* block,
                    float* y) {
  const Blocks blocks(s.columns);
  PixelSums sums{.pixel_stride = s.pixel_stride,
                 .runs = weights.runs,
                 .run_count = s.runs,
                 .taps = s.taps,
                 .pixels = blocks.size};
  for (int64_t oy = 0; oy < s.window.output[0]; ++oy)
    for (int64_t b = 0; b < blocks.number; ++b)
      for (int64_t v = 0; v < s.vectors; ++v) {
        const int64_t kept = std::min(lanes(), s.filters - v * lanes());
        const int64_t at = oy * s.output_row() + blocks.begin(b) * s.filters + v * lanes();
        const int64_t end = at + (blocks.size - 1) * s.filters + lanes();
        const bool direct = kept == lanes() || (s.vectors == 1 && end <= s.output_sample());
        float* to = y + at;
        sums.in = x + oy * s.window.strides[0] * s.row() + blocks.begin(b) * s.pixel_stride;
        sums.w = weights.w + v * s.weights_of_vector();
        sums.start = weights.start + v * lanes();
        sums.out = direct ? to : block;
        sums.out_stride = direct ? s.filters : lanes();
        sum_pixels(sums);
        for (int64_t p = 0; p < blocks.size && !direct; ++p)
          std::copy_n(block + p * lanes(), kept, to + p * s.filters);
      }
}

// ---- weight gradient

// Taps whose sums are made in one go.
struct TapBlocks {
  explicit TapBlocks(const Geometry& s)
      : taps(s.taps),
        in_pairs(s.runs == s.window.kernel[0] && s.runs > 1 && 2 * s.taps <= kMostSums),
        number(in_pairs ? divided_up(s.runs, 2) : s.runs * taps.number) {}

  Blocks taps;
  bool in_pairs;   // two runs at a time: one has too few taps
  int64_t number;  // for one vector
};

// `box` of the pixels, from a first one on.
void sum_box(TapSums sums, const Pixels& first, const Pixels& box) {
  sums.dy +=
      first.samples * sums.dy_sample + first.rows * sums.dy_row + first.columns * sums.dy_column;
  sums.x += first.samples * sums.x_sample + first.rows * sums.x_row + first.columns * sums.x_column;
  sums.pixels = box;
  sum_taps(sums);
}

// Sums over all pixels. Where the tensor ends, a vector would read beyond it: the last pixels'
// filters, as many pixels as a vector reaches over, are read from a copy.
void sum_all_pixels(const Geometry& s, const TapSums& sums, int64_t kept, bool ends_tensor) {
  if (kept == lanes() || !ends_tensor) return sum_taps(sums);
  const Pixels all = sums.pixels;
  const int64_t plane = all.rows * all.columns;
  const int64_t reach = std::max<int64_t>(divided_up(lanes(), s.filters) - 1, 1);
  const int64_t direct = std::max<int64_t>(all.samples * plane - reach, 0);
  const int64_t samples = direct / plane;
  const int64_t rows = direct % plane / all.columns;
  sum_box(sums, {}, {samples, all.rows, all.columns});
  sum_box(sums, {samples, 0, 0}, {1, rows, all.columns});
  sum_box(sums, {samples, rows, 0}, {1, 1, direct % all.columns});
  for (int64_t pixel = direct; pixel < all.samples * plane; ++pixel) {
    const Pixels at{pixel / plane, pixel % plane / all.columns, pixel % all.columns};
    TapSums one = sums;
    std::array<float, kMostLanes> last{};
    std::copy_n(
        sums.dy + at.samples * sums.dy_sample + at.rows * sums.dy_row + at.columns * sums.dy_column,
        kept, last.begin());
    one.dy = last.data();
    one.dy_sample = one.dy_row = one.dy_column = 0;
    sum_box(one, at, {1, 1, 1});
  }
}

// Some samples: as many as fit the cache.
struct Tile {
  int64_t samples = 0;
  const float* x = nullptr;  // padded
  const float* dy = nullptr;
  bool ends_tensor = false;
};

void sum_block(const Geometry& s, const TapBlocks& blocks, const Tile& tile, int64_t item,
               float* all_sums) {
  const int64_t v = item / blocks.number;
  const int64_t block = item % blocks.number;
  int64_t run = block / blocks.taps.number;
  TapSums sums{.pixels = {tile.samples, s.window.output[0], s.columns},
               .dy = tile.dy + v * lanes(),
               .dy_sample = s.output_sample(),
               .dy_row = s.output_row(),
               .dy_column = s.filters,
               .x_sample = s.sample(),
               .x_row = s.window.strides[0] * s.row(),
               .x_column = s.pixel_stride};
  int64_t first = 0;
  if (blocks.in_pairs) {
    run = 2 * block;
    sums.taps = s.taps;
    sums.second = run + 1 < s.runs ? s.run_offset(1) : 0;
  } else {
    // Of overlapping blocks each tap is one's only: sums are added to.
    first = block % blocks.taps.number * blocks.taps.size;
    sums.taps = std::min(blocks.taps.size, s.taps - first);
  }
  sums.x = tile.x + s.run_offset(run) + first;
  sums.sums = all_sums + v * s.weights_of_vector() + (run * s.taps + first) * lanes();
  sum_all_pixels(s, sums, std::min(lanes(), s.filters - v * lanes()), tile.ends_tensor);
}

// The sum of dy itself: a tap that is always 1.
void sum_bias(const Geometry& s, const Tile& tile, int64_t v, float* sums) {
  constexpr float kOne = 1;
  sum_all_pixels(s,
                 {.pixels = {tile.samples, s.window.output[0], s.columns},
                  .dy = tile.dy + v * lanes(),
                  .dy_sample = s.output_sample(),
                  .dy_row = s.output_row(),
                  .dy_column = s.filters,
                  .x = &kOne,
                  .taps = 1,
                  .sums = sums + v * lanes()},
                 std::min(lanes(), s.filters - v * lanes()), tile.ends_tensor);
}

// Adds up what one filter has of each of the pixels together.
void fold(const Geometry& s, const float* sums, const float* bias_sums, const ConvGradient& dw,
          const ConvGradient& dbias, int64_t weights) {
  const int64_t filters = s.filters / s.together;
  if (!dw.accumulate) std::fill_n(dw.data, weights, 0.0F);
  for_weights(s, [&](int64_t at, int64_t to) { dw.data[to] += sums[at]; });
  if (dbias.data == nullptr) return;
  if (!dbias.accumulate) std::fill_n(dbias.data, filters, 0.0F);
  for (int64_t lane = 0; lane < s.filters; ++lane) dbias.data[lane % filters] += bias_sums[lane];
}

}  // namespace

bool suits_narrow_conv(const ConvProblem& p) {
  return p.format == ImageFormat::kChannelsLast && p.groups == 1 && p.channels <= 2;
}

void narrow_conv_forward(const ConvProblem& p, const float* x, const float* w, const float* bias,
                         float* y, Workspace& workspace) {
  const Geometry s(p);
  const ForwardWeights weights = pack_forward(s, w, bias, workspace);
  const ForwardRoom room(s);
  const auto threads = static_cast<int64_t>(workspace.bytes_left() / room.bytes());
  auto* rooms = workspace.take<std::byte>(threads * static_cast<int64_t>(room.bytes()));
  simd::parallel_numbered_pieces(p.samples, 2, [&](int64_t piece, int64_t begin, int64_t end) {
    KERF_CHECK(piece < threads, "workspace for {} threads, a piece {}", threads, piece);
    Workspace own({rooms + piece * static_cast<int64_t>(room.bytes()), room.bytes()});
    float* padded = own.take<float>(room.padded);
    float* block = own.take<float>(room.block);
    for (int64_t n = begin; n < end; ++n) {
      const float* from = x + n * s.input_sample();
      if (s.padded) pad_sample(s, from, padded);
      forward_sample(s, weights, s.padded ? padded : from, block, y + n * s.output_sample());
    }
  });
}

void narrow_conv_weight_gradient(const ConvProblem& p, const float* x, const float* dy,
                                 const ConvGradient& dw, const ConvGradient& dbias,
                                 Workspace& workspace) {
  const Geometry s(p);
  const TapBlocks blocks(s);
  auto* padded = workspace.take<float>(s.padded ? kSamplesAtOnce * s.sample() : 0);
  auto* sums = workspace.take<float>(s.vectors * s.weights_of_vector());
  auto* bias_sums = workspace.take<float>(s.vectors * lanes());
  std::fill_n(sums, s.vectors * s.weights_of_vector(), 0.0F);
  std::fill_n(bias_sums, s.vectors * lanes(), 0.0F);
  for (int64_t first = 0; first < p.samples; first += kSamplesAtOnce) {
    Tile tile{.samples = std::min(kSamplesAtOnce, p.samples - first),
              .x = s.padded ? padded : x + first * s.sample(),
              .dy = dy + first * s.output_sample()};
    tile.ends_tensor = first + tile.samples == p.samples;
    if (s.padded)
      simd::parallel_pieces(tile.samples, 4, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n)
          pad_sample(s, x + (first + n) * s.input_sample(), padded + n * s.sample());
      });
    simd::parallel_pieces(s.vectors * blocks.number, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) sum_block(s, blocks, tile, item, sums);
    });
    for (int64_t v = 0; v < s.vectors && dbias.data != nullptr; ++v)
      sum_bias(s, tile, v, bias_sums);
  }
  fold(s, sums, bias_sums, dw, dbias,
       p.filters * p.channels * p.window.kernel[0] * p.window.kernel[1]);
}

size_t narrow_conv_workspace_bytes(const ConvProblem& p, int threads) {
  const Geometry s(p);
  const auto pieces = static_cast<size_t>(threads);
  const size_t vectors = piece_bytes<float>(s.vectors * s.weights_of_vector()) +
                         piece_bytes<float>(s.vectors * lanes());
  const size_t forward = vectors + piece_bytes<Run>(s.runs) + pieces * ForwardRoom(s).bytes();
  const size_t weight_gradient =
      vectors + piece_bytes<float>(s.padded ? kSamplesAtOnce * s.sample() : 0);
  return std::max(forward, weight_gradient);
}

}  // namespace kerf::ops::cpu
