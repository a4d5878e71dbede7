#include "ops/cpu/panel_matmul.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "ops/cpu/divided_product.h"

#define KERF_AVX2 [[gnu::target("avx2,fma")]]

namespace kerf::ops::cpu {
namespace {

// A tile of the product: twelve registers of sums; the others hold two of B and one of A.
constexpr int64_t kTileRows = 6;
constexpr int64_t kTileColumns = kPanelColumns;
constexpr int64_t kEight = 8;       // numbers of a register
constexpr int64_t kCacheLine = 16;  // numbers
constexpr int64_t kSideBySide = 8;  // panels laid together
constexpr int64_t kAhead = 16;      // terms
// Of a block of A, which stays in the second cache, and of B, which stays in the third.
constexpr int64_t kBlockRows = 144;
constexpr int64_t kBlockTerms = 256;
constexpr int64_t kBlockColumns = 2048;
// Below, what is laid in panels is used too seldom.
constexpr int64_t kLeastExtent = 64;
constexpr int64_t kLeastTerms = 64;
// Of fewer columns a tile at the edge is too much of the whole.
constexpr int64_t kManyColumns = 256;

int64_t up_to(int64_t number, int64_t unit) { return (number + unit - 1) / unit * unit; }

// Eight terms of `rows` rows, at most eight: each term's numbers and zeros at multiples of
// `to_step`, in ascending order, so that a store may run into what the next one writes.
KERF_AVX2 void lay_eight(const MatrixView& from, int64_t rows, int64_t to_step, float* to) {
  __m256 lines[kEight], pairs[kEight], fours[kEight];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kEight; ++i)
    lines[i] = i < rows ? _mm256_loadu_ps(from.at(i, 0).data) : _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int i = 0; i < kEight; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(lines[i], lines[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(lines[i], lines[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < kEight; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    _mm256_storeu_ps(to + i * to_step, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    _mm256_storeu_ps(to + (i + 4) * to_step, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31));
}

// Several whole panels of rows that lie side by side: what is read of a term is a stretch of
// memory, which no hardware foresees, since the next term's is far from it.
template <int64_t kWidth>
void lay_side_by_side(const MatrixView& from, int64_t panels, int64_t terms, float* to) {
  for (int64_t p = 0; p < terms; ++p) {
    const float* line = from.at(0, p).data;
    if (p + kAhead < terms)
      for (int64_t at = 0; at < panels * kWidth; at += kCacheLine)
        __builtin_prefetch(from.at(at, p + kAhead).data);
    for (int64_t panel = 0; panel < panels; ++panel)
      std::memcpy(to + (panel * terms + p) * kWidth, line + panel * kWidth, kWidth * sizeof(float));
  }
}

// kWidth rows of `from` as one panel, term after term; 0 where there are fewer rows. May write up
// to a register beyond the panel.
template <int64_t kWidth>
void lay_panel(const MatrixView& from, int64_t rows, int64_t terms, float* panel) {
  int64_t done = 0;
  if (from.column_step == 1)
    for (; done + kEight <= terms; done += kEight)
      for (int64_t row = 0; row < kWidth; row += kEight)
        lay_eight(from.at(row, done), rows - row, kWidth, panel + done * kWidth + row);
  for (int64_t p = done; p < terms; ++p)
    for (int64_t i = 0; i < kWidth; ++i)
      panel[p * kWidth + i] = i < rows ? *from.at(i, p).data : 0.0F;
}

template <int64_t kWidth>
void lay_panels(const MatrixView& from, int64_t rows, int64_t terms, float* panels) {
  int64_t row = 0;
  if (from.row_step == 1)
    while (row + kWidth <= rows) {
      const int64_t count = std::min((rows - row) / kWidth, kSideBySide);
      lay_side_by_side<kWidth>(from.at(row, 0), count, terms, panels + row * terms);
      row += count * kWidth;
    }
  for (; row < rows; row += kWidth)
    lay_panel<kWidth>(from.at(row, 0), std::min(kWidth, rows - row), terms, panels + row * terms);
}

// A panel of A by one of B. Sixteen numbers a row, of which `to` has all.
KERF_AVX2 void multiply_tile(const float* a, const float* b, int64_t terms, const ProductTile& to) {
  __m256 sums[kTileRows][2];
#pragma GCC unroll 6
  for (auto& row : sums) row[0] = row[1] = _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int64_t p = 0; p < terms; ++p, a += kTileRows, b += kTileColumns) {
    const __m256 left = _mm256_loadu_ps(b);
    const __m256 right = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < kTileRows; ++i) {
      const __m256 x = _mm256_broadcast_ss(a + i);
      sums[i][0] = _mm256_fmadd_ps(x, left, sums[i][0]);
      sums[i][1] = _mm256_fmadd_ps(x, right, sums[i][1]);
    }
  }
  const __m256 alpha = _mm256_set1_ps(to.alpha);
#pragma GCC unroll 6
  for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      float* at = to.data + i * to.row_step + 8 * half;
      __m256 sum = _mm256_mul_ps(alpha, sums[i][half]);
      if (to.adds) sum = _mm256_add_ps(_mm256_loadu_ps(at), sum);
      if (to.bias != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(to.bias + 8 * half));
      _mm256_storeu_ps(at, sum);
    }
}

// A tile at the edge of the product, which has `rows` times `columns` of it.
void multiply_edge(const float* a, const float* b, int64_t terms, const ProductTile& to,
                   int64_t rows, int64_t columns) {
  alignas(32) float whole[kTileRows * kTileColumns];
  multiply_tile(a, b, terms, {whole, kTileColumns, to.alpha, false, nullptr});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      float& at = to.data[i * to.row_step + j];
      const float part = whole[i * kTileColumns + j];
      const float sum = to.adds ? at + part : part;
      at = to.bias == nullptr ? sum : sum + to.bias[j];
    }
}

// A block of A by a block of B, both in panels.
void multiply_block(const float* a, const float* b, const ProductExtents& e,
                    const ProductTile& to) {
  for (int64_t j = 0; j < e.columns; j += kTileColumns)
    for (int64_t i = 0; i < e.rows; i += kTileRows) {
      const ProductTile tile = to.at(i, j);
      const int64_t rows = std::min(kTileRows, e.rows - i);
      const int64_t columns = std::min(kTileColumns, e.columns - j);
      if (rows == kTileRows && columns == kTileColumns)
        multiply_tile(a + i * e.terms, b + j * e.terms, e.terms, tile);
      else
        multiply_edge(a + i * e.terms, b + j * e.terms, e.terms, tile, rows, columns);
    }
}

// In one thread; `panels_of_a` and `panels_of_b` have room for a block each.
void multiply(const MatrixView& a, const MatrixView& b, const ProductExtents& e,
              const ProductTile& to, float* panels_of_a, float* panels_of_b) {
  for (int64_t column = 0; column < e.columns; column += kBlockColumns)
    for (int64_t term = 0; term < e.terms; term += kBlockTerms) {
      ProductExtents block{0, std::min(kBlockColumns, e.columns - column),
                           std::min(kBlockTerms, e.terms - term)};
      const bool last = term + block.terms == e.terms;
      lay_panels<kTileColumns>(b.at(term, column).transposed(), block.columns, block.terms,
                               panels_of_b);
      for (int64_t row = 0; row < e.rows; row += kBlockRows) {
        block.rows = std::min(kBlockRows, e.rows - row);
        lay_panels<kTileRows>(a.at(row, term), block.rows, block.terms, panels_of_a);
        multiply_block(panels_of_a, panels_of_b, block,
                       to.at(row, column).of_terms(term == 0, last));
      }
    }
}

PanelSizes panel_sizes(const MatmulProblem& p) {
  const int64_t terms = std::min(p.k, kBlockTerms);
  return {up_to(std::min(p.m, kBlockRows), kTileRows) * terms + kEight,
          up_to(std::min(p.n, kBlockColumns), kTileColumns) * terms};
}

}  // namespace

bool has_panels() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

bool suits_panels(const MatmulProblem& p) {
  static const bool quicker = has_panels() && __builtin_cpu_supports("avx512f") == 0;
  const bool fits_columns = p.n >= kManyColumns || p.n % kTileColumns == 0;
  return quicker && p.batch == 1 && std::min(p.m, p.n) >= kLeastExtent && p.k >= kLeastTerms &&
         fits_columns;
}

size_t panel_workspace_bytes(const MatmulProblem& p, int threads) {
  return panel_bytes(panel_sizes(p), threads);
}

void multiply_panels(const MatmulProblem& p, Matrix a, Matrix b, const float* bias, float* to,
                     Workspace workspace) {
  divide_product(p, {a, b, bias, to}, workspace, {kTileRows, kTileColumns}, panel_sizes(p),
                 multiply);
}

}  // namespace kerf::ops::cpu
