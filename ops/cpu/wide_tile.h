// The kernel of wide_panel_matmul.h: up to fourteen rows by thirty-two columns in registers, and
// what it asks of the memory meanwhile. Pure functions, for processors with AVX-512.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ops/cpu/matrix_view.h"

#define KERF_AVX512 [[gnu::target("avx512f,prfchw")]]

namespace kerf::ops::cpu::wide {

constexpr int64_t kTileRows = 14;  // twenty-eight registers of sums; others hold two of B
constexpr int64_t kTileColumns = 32;
constexpr int64_t kRegister = 16;     // numbers; a cache line, too
constexpr int64_t kBlockTerms = 512;  // at most
// From a row of A to the next, of a block that lies by rows: not a multiple of many lines, which
// would fall into the same set of the cache.
constexpr int64_t kRowStep = kBlockTerms + kRegister;
constexpr int64_t kTurn = 8;      // terms between two looks at the memory
constexpr int64_t kLate = 6;      // turns from asking for a line to using it
constexpr int64_t kLinesOfA = 8;  // asked for in a turn

// Rows of the next sliver of B, or the columns of which its terms are gathered.
struct NextSliver {
  const float* at = nullptr;  // two cache lines of each
  int64_t step = 0;
  int64_t count = 0;
  float* laid = nullptr;  // where they are copied to; null: they are asked for only
};

// Lines of the next rows of A: four that are `inner` apart, and four `outer` behind.
struct NextRows {
  const float* at = nullptr;  // null: none
  int64_t inner = 0;
  int64_t outer = 0;
  int64_t jumps[2] = {};  // to those of the next turn, and of that after it
};

// How many rows of a sliver a tile can lay: what is added to is asked for last, so that it is still
// in the first cache.
inline int64_t rows_laid_within(int64_t tile_rows, int64_t terms) {
  return std::max<int64_t>(0, terms / kTurn - tile_rows - 2 * kLate);
}

class Memory {
 public:
  Memory(const NextSliver& sliver, const NextRows& rows, const ProductTile& to, int64_t tile_rows,
         int64_t terms)
      : sliver_(sliver),
        rows_(rows),
        to_(reinterpret_cast<const char*>(to.data)),
        to_step_(to.row_step * int64_t{sizeof(float)}),
        to_end_(to_ + tile_rows * to_step_),
        to_from_((terms / kTurn - tile_rows - kLate) * kTurn),
        most_(sliver.count - kLate) {}

  KERF_AVX512 [[gnu::always_inline]] void turn(int64_t term) {
    if (term < to_from_)
      lay();
    else if (to_ != to_end_)
      ask_for_product();
    if (rows_.at == nullptr) return;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kLinesOfA; ++i)
      __builtin_prefetch(rows_.at + i % 4 * rows_.inner + i / 4 * rows_.outer, 0, 2);
    rows_.at += rows_.jumps[0];
    std::swap(rows_.jumps[0], rows_.jumps[1]);
  }

 private:
  KERF_AVX512 [[gnu::always_inline]] void lay() {
    if (sliver_.count <= -kLate) return;
    if (sliver_.count > 0) {
      __builtin_prefetch(sliver_.at, 0, 2);
      __builtin_prefetch(sliver_.at + kRegister, 0, 2);
    }
    if (sliver_.laid != nullptr && sliver_.count <= most_) {
      const float* from = sliver_.at - kLate * sliver_.step;
      _mm512_storeu_ps(sliver_.laid, _mm512_loadu_ps(from));
      _mm512_storeu_ps(sliver_.laid + kRegister, _mm512_loadu_ps(from + kRegister));
      sliver_.laid += kTileColumns;
    }
    sliver_.at += sliver_.step;
    --sliver_.count;
  }
  [[gnu::always_inline]] void ask_for_product() {
    __builtin_prefetch(to_, 1);
    __builtin_prefetch(to_ + kRegister * sizeof(float), 1);
    to_ += to_step_;
  }

  NextSliver sliver_;
  NextRows rows_;
  const char* to_;
  int64_t to_step_;
  const char* to_end_;
  int64_t to_from_;
  int64_t most_;
};

// sum += *number * of, without an instruction of its own for reading the number.
KERF_AVX512 [[gnu::always_inline]] inline void add_product(const float* number, __m512 of,
                                                           __m512& sum) {
  asm("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(sum) : "m"(*number), "v"(of));
}

// Half of the rows read their number of A twice, with each multiplication, and half once, before:
// the one alone takes more reads than there is room for, the other more instructions, which counts
// where a core is shared. GCC would make all of one kind.
template <int kRows, bool kByRows>
KERF_AVX512 [[gnu::always_inline]] inline void add_term(const float* a, const float* b,
                                                        __m512 (&sums)[kRows][2]) {
  const __m512 left = _mm512_loadu_ps(b);
  const __m512 right = _mm512_loadu_ps(b + kRegister);
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i) {
    const float* number = a + (kByRows ? i * kRowStep : i);
    if (i < kRows / 2) {
      add_product(number, left, sums[i][0]);
      add_product(number, right, sums[i][1]);
    } else {
      const __m512 x = _mm512_set1_ps(*number);
      sums[i][0] = _mm512_fmadd_ps(x, left, sums[i][0]);
      sums[i][1] = _mm512_fmadd_ps(x, right, sums[i][1]);
    }
  }
}

// kRows rows of A, which lie by rows kRowStep apart, or term after term, by a sliver of B, of which
// the product has `columns`, as bits.
template <int kRows, bool kByRows>
KERF_AVX512 void multiply_tile(const float* a, const float* b, int64_t terms, const ProductTile& to,
                               uint32_t columns, const NextSliver& sliver, const NextRows& rows) {
  constexpr int64_t kTermStep = kByRows ? 1 : kRows;
  __m512 sums[kRows][2];
#pragma GCC unroll 14
  for (auto& row : sums) row[0] = row[1] = _mm512_setzero_ps();
  Memory memory(sliver, rows, to, kRows, terms);
  int64_t p = 0;
  for (; p + kTurn <= terms; p += kTurn) {
    memory.turn(p);
#pragma GCC unroll 8
    for (int64_t q = 0; q < kTurn; ++q)
      add_term<kRows, kByRows>(a + q * kTermStep, b + q * kTileColumns, sums);
    a += kTurn * kTermStep;
    b += kTurn * kTileColumns;
  }
  for (; p < terms; ++p, a += kTermStep, b += kTileColumns) add_term<kRows, kByRows>(a, b, sums);
  const __m512 alpha = _mm512_set1_ps(to.alpha);
#pragma GCC unroll 14
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const auto mask = static_cast<__mmask16>(columns >> (kRegister * half));
      float* at = to.data + i * to.row_step + kRegister * half;
      __m512 sum = _mm512_mul_ps(alpha, sums[i][half]);
      if (to.adds) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, at), sum);
      if (to.bias != nullptr)
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, to.bias + kRegister * half));
      _mm512_mask_storeu_ps(at, mask, sum);
    }
}

using MultiplyTile = void (*)(const float* a, const float* b, int64_t terms, const ProductTile& to,
                              uint32_t columns, const NextSliver& sliver, const NextRows& rows);

// The kernels of 1, 2, ... kTileRows rows.
template <bool kByRows, int... kLess>
constexpr std::array<MultiplyTile, kTileRows> tiles_of(std::integer_sequence<int, kLess...>) {
  return {multiply_tile<kLess + 1, kByRows>...};
}
template <bool kByRows>
constexpr std::array<MultiplyTile, kTileRows> kMultiplyTile =
    tiles_of<kByRows>(std::make_integer_sequence<int, kTileRows>());

}  // namespace kerf::ops::cpu::wide
