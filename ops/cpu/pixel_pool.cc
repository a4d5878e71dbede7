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
typedef int PoolInts __attribute__((vector_size(kPoolLanes * 4)));
typedef uint8_t PoolBytes __attribute__((vector_size(kPoolLanes)));

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

[[gnu::always_inline]] inline void max_in_lanes(const PixelPool& pool, const Placed& window,
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
    const auto narrow = __builtin_convertvector(taken, PoolBytes);
    std::memcpy(index + to, &narrow, sizeof narrow);
  } else {
    std::memcpy(index + 4 * to, &taken, sizeof taken);
  }
}

void max_one_by_one(const PixelPool& pool, const Placed& window, const float* x, int64_t channel,
                    int64_t to, float* y, std::byte* index) {
  float best = x[window.at + channel];
  int taken = static_cast<int>(window.rows.first * pool.window.kernel[1] + window.columns.first);
  window.for_entries(pool.window, [&](int64_t element, int entry) {
    const float value = x[element + channel];
    if (!(value > best) && value == value) return;
    best = value;
    taken = entry;
  });
  y[to] = best;
  if (index != nullptr) put_index(index, pool.index_bytes, to, taken);
}

KERF_CLONES void max_rows(const PixelPool& pool, const float* x, int64_t first, int64_t last,
                          float* y, std::byte* index) {
  const Window& w = pool.window;
  const int64_t channels = pool.channels;
  const int64_t end = last * w.output[1] * channels;  // of what may be written
  for (int64_t row = first; row < last; ++row) {
    const Taps rows = taps(w, 0, row % w.output[0]);
    for (int64_t ox = 0; ox < w.output[1]; ++ox) {
      const Placed window(pool, row / w.output[0], rows, taps(w, 1, ox));
      const int64_t to = (row * w.output[1] + ox) * channels;
      for (int64_t c = 0; c < channels; c += kPoolLanes) {
        if (window.last + c + kPoolLanes <= pool.input_elements && to + c + kPoolLanes <= end) {
          max_in_lanes(pool, window, x, c, to + c, y, index);
          continue;
        }
        for (int64_t i = c; i < std::min(c + kPoolLanes, channels); ++i)
          max_one_by_one(pool, window, x, i, to + i, y, index);
      }
    }
  }
}

[[gnu::always_inline]] inline void add_in_lanes(const PixelPool& pool, const Placed& window,
                                                const float* dy, const std::byte* index,
                                                int64_t channel, int64_t from, float* dx) {
  PoolFloats gradient;
  PoolInts taken{};
  std::memcpy(&gradient, dy + from, sizeof gradient);
  if (pool.index_bytes == 1) {
    PoolBytes narrow;
    std::memcpy(&narrow, index + from, sizeof narrow);
    taken = __builtin_convertvector(narrow, PoolInts);
  } else {
    std::memcpy(&taken, index + 4 * from, sizeof taken);
  }
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

KERF_CLONES void max_gradient(const PixelPool& pool, const float* dy, const std::byte* index,
                              int64_t first, int64_t last, float* dx) {
  const Window& w = pool.window;
  const int64_t channels = pool.channels;
  const int64_t sample = w.input[0] * w.input[1] * channels;
  for (int64_t n = first; n < last; ++n) {
    std::fill_n(dx + n * sample, sample, 0.0F);
    for (int64_t oy = 0; oy < w.output[0]; ++oy) {
      const Taps rows = taps(w, 0, oy);
      for (int64_t ox = 0; ox < w.output[1]; ++ox) {
        const Placed window(pool, n, rows, taps(w, 1, ox));
        const int64_t from = ((n * w.output[0] + oy) * w.output[1] + ox) * channels;
        for (int64_t c = 0; c < channels; c += kPoolLanes) {
          if (window.last + c + kPoolLanes <= last * sample &&
              from + c + kPoolLanes <= pool.output_elements) {
            add_in_lanes(pool, window, dy, index, c, from + c, dx);
            continue;
          }
          for (int64_t i = c; i < std::min(c + kPoolLanes, channels); ++i) {
            const int taken = get_index(index, pool.index_bytes, from + i);
            window.for_entries(w, [&](int64_t element, int entry) {
              if (entry == taken) dx[element + i] += dy[from + i];
            });
          }
        }
      }
    }
  }
}

}  // namespace

void max_of_pixels(const PixelPool& pool, const float* x, int64_t first, int64_t last, float* y,
                   std::byte* index) {
  max_rows(pool, x, first, last, y, index);
}

void max_gradient_of_pixels(const PixelPool& pool, const float* dy, const std::byte* index,
                            int64_t first, int64_t last, float* dx) {
  max_gradient(pool, dy, index, first, last, dx);
}

}  // namespace kerf::ops::cpu
