#include "ops/cpu/pixel_pool.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/pool_taps.h"
#include "ops/simd/simd.h"

namespace kerf::ops::cpu {
namespace {

// GCC 12 compares 16 floats one by one, even for AVX-512.
constexpr int kPoolLanes = 8;
typedef float PoolFloats __attribute__((vector_size(kPoolLanes * 4)));
typedef float WideFloats __attribute__((vector_size(kPoolLanes * 8)));  // where nothing is compared
typedef int PoolInts __attribute__((vector_size(kPoolLanes * 4)));
typedef uint8_t PoolBytes __attribute__((vector_size(kPoolLanes)));
typedef uint8_t HalfBytes __attribute__((vector_size(kPoolLanes * 2)));  // of PoolInts

// A window on an input sample: its entries, and where the first of them lies.
struct Placed {
  Taps rows;
  Taps columns;
  int64_t at = 0;           // element of the input
  int64_t row_step = 0;     // from an entry to the one below it
  int64_t column_step = 0;  // and beside it
  int64_t last = 0;         // element of the last entry

  Placed(const PixelPool& pool, int64_t sample, const Taps& rows_of, const Taps& columns_of)
      : rows(rows_of), columns(columns_of) {
    const Window& w = pool.window;
    const int64_t width = w.input[1] * pool.channels;
    at = (sample * w.input[0] + rows.at) * width + columns.at * pool.channels;
    row_step = w.dilations[0] * width;
    column_step = w.dilations[1] * pool.channels;
    last = at + (rows.last - rows.first - 1) * row_step +
           (columns.last - columns.first - 1) * column_step;
  }

  // Calls visit(element of the input, number within the window) for every entry on the input.
  template <class Visit>
  [[gnu::always_inline]] void for_entries(const Window& w, const Visit& visit) const {
    int64_t row = at;
    for (int64_t ky = rows.first; ky < rows.last; ++ky, row += row_step) {
      int64_t element = row;
      for (int64_t kx = columns.first; kx < columns.last; ++kx, element += column_step)
        visit(element, static_cast<int>(ky * w.kernel[1] + kx));
    }
  }
};

// The same where all of a window's entries, so many, lie on the input.
template <int kRows, int kColumns>
struct Whole : Placed {
  explicit Whole(const Placed& placed) : Placed(placed) {}
  template <class Visit>
  [[gnu::always_inline]] void for_entries(const Window&, const Visit& visit) const {
#pragma GCC unroll 3
    for (int ky = 0; ky < kRows; ++ky)
#pragma GCC unroll 3
      for (int kx = 0; kx < kColumns; ++kx)
        visit(at + ky * row_step + kx * column_step, ky * kColumns + kx);
  }
};

struct WindowPlace {
  int64_t number = 0;  // among all windows of all samples
  int64_t row = 0;     // of its sample
  int64_t column = 0;
};

// Calls visit(window, its place) for the windows of rows [first, last) of all samples' rows of the
// output.
template <class Visit>
[[gnu::always_inline]] inline void for_windows(const PixelPool& pool, int64_t first, int64_t last,
                                               const Visit& visit) {
  const Window& w = pool.window;
  const bool two = w.kernel == Extent2{2, 2};
  const bool three = w.kernel == Extent2{3, 3};
  for (int64_t row = first; row < last; ++row) {
    const int64_t oy = row % w.output[0];
    const Taps rows = taps(w, 0, oy);
    const bool whole_rows = rows.last - rows.first == w.kernel[0];
    for (int64_t ox = 0; ox < w.output[1]; ++ox) {
      const Taps columns = taps(w, 1, ox);
      const Placed window(pool, row / w.output[0], rows, columns);
      const bool whole = whole_rows && columns.last - columns.first == w.kernel[1];
      const WindowPlace place{row * w.output[1] + ox, oy, ox};
      if (whole && two)
        visit(Whole<2, 2>(window), place);
      else if (whole && three)
        visit(Whole<3, 3>(window), place);
      else
        visit(window, place);
    }
  }
}

void put_index(std::byte* index, int64_t index_bytes, int64_t at, int entry) {
  if (index_bytes == 1)
    index[at] = static_cast<std::byte>(entry);
  else
    std::memcpy(index + at * 4, &entry, sizeof entry);
}

int get_index(const std::byte* index, int64_t index_bytes, int64_t at) {
  if (index_bytes == 1) return static_cast<int>(index[at]);
  int entry = 0;
  std::memcpy(&entry, index + at * 4, sizeof entry);
  return entry;
}

template <class Entries>
[[gnu::always_inline]] inline void max_in_lanes(const PixelPool& pool, const Entries& window,
                                                const float* x, int64_t channel, int64_t to,
                                                float* y, std::byte* index) {
  PoolFloats best{};
  PoolInts taken{};
  std::memcpy(&best, x + window.at + channel, sizeof best);
  taken += static_cast<int>(window.rows.first * pool.window.kernel[1] + window.columns.first);
  window.for_entries(
      pool.window, [&](int64_t element, int entry) __attribute__((always_inline)) {
        PoolFloats value;
        std::memcpy(&value, x + element + channel, sizeof value);
        // NaN wins, so that a diverged run shows.
        const PoolInts take = (value > best) | (value != value);
        best = take ? value : best;
        taken = take ? PoolInts{} + entry : taken;
      });
  std::memcpy(y + to, &best, sizeof best);
  if (index == nullptr) return;
  if (pool.index_bytes == 1) {
    // GCC 12 converts them one by one.
    HalfBytes halves[2];
    std::memcpy(halves, &taken, sizeof taken);
    const HalfBytes lowest{0, 4, 8, 12, 16, 20, 24, 28};
    const HalfBytes narrow = __builtin_shuffle(halves[0], halves[1], lowest);
    std::memcpy(index + to, &narrow, kPoolLanes);
  } else {
    std::memcpy(index + 4 * to, &taken, sizeof taken);
  }
}

// Inlined, as all here: else windows would go through memory.
template <class Entries>
[[gnu::always_inline]] inline void max_one_by_one(const PixelPool& pool, const Entries& window,
                                                  const float* x, int64_t channel, int64_t to,
                                                  float* y, std::byte* index) {
  float best = x[window.at + channel];
  int taken = static_cast<int>(window.rows.first * pool.window.kernel[1] + window.columns.first);
  window.for_entries(
      pool.window, [&](int64_t element, int entry) __attribute__((always_inline)) {
        const float value = x[element + channel];
        if (!(value > best) && value == value) return;
        best = value;
        taken = entry;
      });
  y[to] = best;
  if (index != nullptr) put_index(index, pool.index_bytes, to, taken);
}

KERF_CLONES void max_rows(const PixelPool pool, const float* x, int64_t first, int64_t last,
                          float* y, std::byte* index) {
  const int64_t channels = pool.channels;
  const int64_t end = last * pool.window.output[1] * channels;  // of what may be written
  for_windows(
      pool, first,
      last, [&](const auto& window, const WindowPlace& place) __attribute__((always_inline)) {
        const int64_t to = place.number * channels;
        for (int64_t c = 0; c < channels; c += kPoolLanes) {
          if (window.last + c + kPoolLanes <= pool.input_elements && to + c + kPoolLanes <= end) {
            max_in_lanes(pool, window, x, c, to + c, y, index);
            continue;
          }
          for (int64_t i = c; i < std::min(c + kPoolLanes, channels); ++i)
            max_one_by_one(pool, window, x, i, to + i, y, index);
        }
      });
}

template <class Floats, class Entries>
[[gnu::always_inline]] inline void average_in_lanes(const PixelPool& pool, const Entries& window,
                                                    float share, const float* x, int64_t channel,
                                                    int64_t to, float* y) {
  Floats sum{};
  window.for_entries(
      pool.window, [&](int64_t element, int) __attribute__((always_inline)) {
        Floats value;
        std::memcpy(&value, x + element + channel, sizeof value);
        sum += value;
      });
  sum *= share;
  std::memcpy(y + to, &sum, sizeof sum);
}

KERF_CLONES void average_rows(const PixelPool pool, const AveragedEntries& entries, const float* x,
                              int64_t first, int64_t last, float* y) {
  const int64_t channels = pool.channels;
  const int64_t end = last * pool.window.output[1] * channels;
  for_windows(
      pool, first,
      last, [&](const auto& window, const WindowPlace& place) __attribute__((always_inline)) {
        const int64_t to = place.number * channels;
        const float share = entries.share(place.row, place.column);
        for (int64_t c = 0; c < channels; c += kPoolLanes) {
          const int64_t room = std::min(pool.input_elements - window.last, end - to) - c;
          if (channels - c > kPoolLanes && room >= 2 * kPoolLanes) {
            average_in_lanes<WideFloats>(pool, window, share, x, c, to + c, y);
            c += kPoolLanes;
            continue;
          }
          if (room >= kPoolLanes) {
            average_in_lanes<PoolFloats>(pool, window, share, x, c, to + c, y);
            continue;
          }
          for (int64_t i = c; i < std::min(c + kPoolLanes, channels); ++i) {
            float sum = 0;
            window.for_entries(
                pool.window, [&](int64_t element, int)
                                 __attribute__((always_inline)) { sum += x[element + i]; });
            y[to + i] = sum * share;
          }
        }
      });
}

[[gnu::always_inline]] inline void get_indices(const std::byte* index, int64_t index_bytes,
                                               int64_t at, PoolInts& taken) {
  if (index_bytes == 1) {
    PoolBytes narrow;
    std::memcpy(&narrow, index + at, sizeof narrow);
    taken = __builtin_convertvector(narrow, PoolInts);
  } else {
    std::memcpy(&taken, index + 4 * at, sizeof taken);
  }
}

template <class Entries>
[[gnu::always_inline]] inline void put_in_lanes(const PixelPool& pool, const Entries& window,
                                                const float* dy, const std::byte* index,
                                                int64_t channel, int64_t from, float* dx) {
  const PoolFloats zero{};
  PoolFloats gradient;
  std::memcpy(&gradient, dy + from, sizeof gradient);
  PoolInts taken{};
  get_indices(index, pool.index_bytes, from, taken);
  window.for_entries(
      pool.window, [&](int64_t element, int entry) __attribute__((always_inline)) {
        const PoolFloats part = taken == entry ? gradient : zero;
        std::memcpy(dx + element + channel, &part, sizeof part);
      });
}

template <class Entries>
[[gnu::always_inline]] inline void add_in_lanes(const PixelPool& pool, const Entries& window,
                                                const float* dy, const std::byte* index,
                                                int64_t channel, int64_t from, float* dx) {
  PoolFloats gradient;
  std::memcpy(&gradient, dy + from, sizeof gradient);
  PoolInts taken{};
  get_indices(index, pool.index_bytes, from, taken);
  int numbers[kPoolLanes];
  for (int i = 0; i < kPoolLanes; ++i) numbers[i] = i;
  PoolInts lane;
  std::memcpy(&lane, numbers, sizeof lane);
  const auto left = static_cast<int>(std::min<int64_t>(pool.channels - channel, kPoolLanes));
  const PoolFloats zero{};
  gradient = lane < left ? gradient : zero;  // the rest is the next pixel's
  window.for_entries(
      pool.window, [&](int64_t element, int entry) __attribute__((always_inline)) {
        PoolFloats sum;
        std::memcpy(&sum, dx + element + channel, sizeof sum);
        sum += taken == entry ? gradient : zero;
        std::memcpy(dx + element + channel, &sum, sizeof sum);
      });
}

KERF_CLONES void put_gradient(const PixelPool pool, const float* dy, const std::byte* index,
                              int64_t first, int64_t last, float* dx) {
  const int64_t rows = pool.window.output[0];
  for_windows(
      pool, first * rows, last * rows,
      [&](const auto& window, const WindowPlace& place) __attribute__((always_inline)) {
        for (int64_t c = 0; c < pool.channels; c += kPoolLanes)
          put_in_lanes(pool, window, dy, index, c, place.number * pool.channels + c, dx);
      });
}

KERF_CLONES void put_shares(const PixelPool pool, const AveragedEntries& entries, const float* dy,
                            int64_t first, int64_t last, float* dx) {
  const int64_t rows = pool.window.output[0];
  for_windows(
      pool, first * rows, last * rows,
      [&](const auto& window, const WindowPlace& place) __attribute__((always_inline)) {
        const float share = entries.share(place.row, place.column);
        for (int64_t c = 0; c < pool.channels; c += kPoolLanes) {
          PoolFloats part;
          std::memcpy(&part, dy + place.number * pool.channels + c, sizeof part);
          part *= share;
          window.for_entries(
              pool.window, [&](int64_t element, int) __attribute__((always_inline)) {
                std::memcpy(dx + element + c, &part, sizeof part);
              });
        }
      });
}

KERF_CLONES void add_gradient(const PixelPool pool, const float* dy, const std::byte* index,
                              int64_t first, int64_t last, float* dx) {
  const Window& w = pool.window;
  const int64_t channels = pool.channels;
  const int64_t sample = w.input[0] * w.input[1] * channels;
  for (int64_t n = first; n < last; ++n) {
    std::fill_n(dx + n * sample, sample, 0.0F);
    for_windows(
        pool, n * w.output[0], (n + 1) * w.output[0],
        [&](const auto& window, const WindowPlace& place) __attribute__((always_inline)) {
          const int64_t from = place.number * channels;
          for (int64_t c = 0; c < channels; c += kPoolLanes) {
            if (window.last + c + kPoolLanes <= last * sample &&
                from + c + kPoolLanes <= pool.output_elements) {
              add_in_lanes(pool, window, dy, index, c, from + c, dx);
              continue;
            }
            for (int64_t i = c; i < std::min(c + kPoolLanes, channels); ++i) {
              const int taken = get_index(index, pool.index_bytes, from + i);
              window.for_entries(
                  w, [&](int64_t element, int entry) __attribute__((always_inline)) {
                    if (entry == taken) dx[element + i] += dy[from + i];
                  });
            }
          }
        });
  }
}

}  // namespace

bool tiles(const PixelPool& pool) {
  const Window& w = pool.window;
  bool exact = pool.channels % kPoolLanes == 0;
  for (size_t i = 0; i < 2; ++i)
    exact = exact && w.strides[i] == w.kernel[i] && w.dilations[i] == 1 && w.pads_begin[i] == 0 &&
            w.output[i] * w.strides[i] == w.input[i];
  return exact;
}

void max_of_pixels(const PixelPool& pool, const float* x, int64_t first, int64_t last, float* y,
                   std::byte* index) {
  max_rows(pool, x, first, last, y, index);
}

void max_gradient_of_pixels(const PixelPool& pool, const float* dy, const std::byte* index,
                            int64_t first, int64_t last, float* dx) {
  (tiles(pool) ? put_gradient : add_gradient)(pool, dy, index, first, last, dx);
}

void average_of_pixels(const PixelPool& pool, const AveragedEntries& entries, const float* x,
                       int64_t first, int64_t last, float* y) {
  average_rows(pool, entries, x, first, last, y);
}

void average_gradient_of_tiles(const PixelPool& pool, const AveragedEntries& entries,
                               const float* dy, int64_t first, int64_t last, float* dx) {
  put_shares(pool, entries, dy, first, last, dx);
}

}  // namespace kerf::ops::cpu
