#include "ops/cpu/wide_panel_matmul.h"

#include <unistd.h>

#include <cstring>

#include "ops/cpu/divided_product.h"
#include "ops/cpu/wide_tile.h"

namespace kerf::ops::cpu {
namespace wide {
namespace {

constexpr int64_t kBlockRows = 256;  // at most; with kBlockTerms half of kSecondCache
constexpr int64_t kSideBySide = 4;   // tiles of A laid together, where it lies by columns
constexpr long kSecondCache = 1 << 20;
// Below, oneDNN is as quick.
constexpr int64_t kLeastRows = 64;
constexpr int64_t kLeastColumns = 256;
constexpr int64_t kLeastTerms = 128;

int64_t pieces_of(int64_t whole, int64_t most) { return (whole + most - 1) / most; }

// `whole` in pieces that are equal but for one.
struct Pieces {
  int64_t whole;
  int64_t count;
  int64_t begin(int64_t piece) const { return whole * piece / count; }
  int64_t length(int64_t piece) const { return begin(piece + 1) - begin(piece); }
};

uint32_t low_bits(int64_t count) {
  return count >= kTileColumns ? ~uint32_t{0} : (uint32_t{1} << count) - 1;
}

// Of maskz intrinsics: GCC 12 takes the others' undefined operand for a fault.
constexpr __mmask16 kAll = 0xffff;

// Sixteen terms of `count` columns of B, at most sixteen, as rows of a sliver; zeros where there
// are fewer columns.
KERF_AVX512 void lay_sixteen(const MatrixView& b, int64_t count, float* to) {
  __m512 x[16], y[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    x[i] = i < count ? _mm512_loadu_ps(b.data + i * b.column_step) : _mm512_setzero_ps();
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_maskz_unpacklo_ps(kAll, x[i], x[i + 1]);
    y[i + 1] = _mm512_maskz_unpackhi_ps(kAll, x[i], x[i + 1]);
  }
  // x[i + j]: terms j, 4 + j, 8 + j and 12 + j of columns i to i + 3.
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_maskz_shuffle_ps(kAll, y[i], y[i + 2], 0x44);
    x[i + 1] = _mm512_maskz_shuffle_ps(kAll, y[i], y[i + 2], 0xee);
    x[i + 2] = _mm512_maskz_shuffle_ps(kAll, y[i + 1], y[i + 3], 0x44);
    x[i + 3] = _mm512_maskz_shuffle_ps(kAll, y[i + 1], y[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512 even_left = _mm512_maskz_shuffle_f32x4(kAll, x[j], x[4 + j], 0x88);
    const __m512 even_right = _mm512_maskz_shuffle_f32x4(kAll, x[8 + j], x[12 + j], 0x88);
    const __m512 odd_left = _mm512_maskz_shuffle_f32x4(kAll, x[j], x[4 + j], 0xdd);
    const __m512 odd_right = _mm512_maskz_shuffle_f32x4(kAll, x[8 + j], x[12 + j], 0xdd);
    _mm512_storeu_ps(to + j * kTileColumns,
                     _mm512_maskz_shuffle_f32x4(kAll, even_left, even_right, 0x88));
    _mm512_storeu_ps(to + (4 + j) * kTileColumns,
                     _mm512_maskz_shuffle_f32x4(kAll, odd_left, odd_right, 0x88));
    _mm512_storeu_ps(to + (8 + j) * kTileColumns,
                     _mm512_maskz_shuffle_f32x4(kAll, even_left, even_right, 0xdd));
    _mm512_storeu_ps(to + (12 + j) * kTileColumns,
                     _mm512_maskz_shuffle_f32x4(kAll, odd_left, odd_right, 0xdd));
  }
}

// Terms [begin, end) of a sliver of `columns` columns.
KERF_AVX512 void lay_sliver(const MatrixView& b, int64_t columns, int64_t begin, int64_t end,
                            float* sliver) {
  int64_t p = begin;
  if (b.column_step == 1) {
    const uint32_t bits = low_bits(columns);
    for (; p < end; ++p)
      for (int64_t half = 0; half < 2; ++half) {
        const float* from = b.at(p, half * kRegister).data;
        const auto mask = static_cast<__mmask16>(bits >> (kRegister * half));
        _mm512_storeu_ps(sliver + p * kTileColumns + half * kRegister,
                         _mm512_maskz_loadu_ps(mask, from));
      }
    return;
  }
  for (; p + kRegister <= end; p += kRegister)
    for (int64_t j = 0; j < kTileColumns; j += kRegister)
      lay_sixteen(b.at(p, j), columns - j, sliver + p * kTileColumns + j);
  for (; p < end; ++p)
    for (int64_t j = 0; j < kTileColumns; ++j)
      sliver[p * kTileColumns + j] = j < columns ? *b.at(p, j).data : 0.0F;
}

// A block of A, laid tile after tile: the first before, each of the others while the one before it
// is multiplied by the first sliver. Where A lies by rows, rows of a tile are kRowStep apart; where
// it lies by columns, terms are as far apart as the tile has rows, and some tiles are laid
// together, a part of their terms at a time, since they share cache lines.
class BlockOfA {
 public:
  BlockOfA(const MatrixView& from, int64_t rows, int64_t terms, float* panels)
      : from_(from),
        by_rows_(from.column_step == 1),
        terms_(terms),
        tiles_{rows, pieces_of(rows, kTileRows)},
        panels_(panels) {}

  const Pieces& tiles() const { return tiles_; }
  MultiplyTile kernel(int64_t tile) const {
    const auto index = static_cast<size_t>(tiles_.length(tile) - 1);
    return by_rows_ ? kMultiplyTile<true>[index] : kMultiplyTile<false>[index];
  }
  float* panel(int64_t tile) const {
    return panels_ + tiles_.begin(tile) * (by_rows_ ? kRowStep : terms_);
  }

  void lay_first() const {
    if (by_rows_) return lay_rows(0);
    lay_columns(0, 0, terms_);
  }
  // What lay_after() will read.
  NextRows ask_before(int64_t tile) const {
    if (by_rows_) {
      if (tile + 1 >= tiles_.count) return {};
      const int64_t step = from_.row_step;
      return {from_.at(tiles_.begin(tile + 1), 0).data,
              step,
              4 * step,
              {kLinesOfA * step, kRegister - kLinesOfA * step}};
    }
    const int64_t next = next_group(tile);
    if (next >= tiles_.count) return {};
    // The first line was read with the group before.
    const int64_t row = tiles_.begin(next) + kRegister / 2 - 1;
    const int64_t step = from_.column_step;
    return {from_.at(row, part(tile)).data, kRegister, step, {2 * step, 2 * step}};
  }
  void lay_after(int64_t tile) const {
    if (by_rows_) {
      if (tile + 1 < tiles_.count) lay_rows(tile + 1);
    } else if (next_group(tile) < tiles_.count) {
      lay_columns(next_group(tile), part(tile), part_end(tile));
    }
  }

 private:
  static int64_t next_group(int64_t tile) { return (tile / kSideBySide + 1) * kSideBySide; }
  // The terms of the next group that follow this tile.
  int64_t part(int64_t tile) const { return terms_ * (tile % kSideBySide) / kSideBySide; }
  int64_t part_end(int64_t tile) const { return terms_ * (tile % kSideBySide + 1) / kSideBySide; }

  void lay_rows(int64_t tile) const {
    for (int64_t i = 0; i < tiles_.length(tile); ++i)
      std::memcpy(panel(tile) + i * kRowStep, from_.at(tiles_.begin(tile) + i, 0).data,
                  static_cast<size_t>(terms_) * sizeof(float));
  }
  KERF_AVX512 void lay_columns(int64_t first, int64_t begin, int64_t end) const {
    for (int64_t tile = first; tile < std::min(tiles_.count, first + kSideBySide); ++tile) {
      const int64_t rows = tiles_.length(tile);
      const auto mask = static_cast<__mmask16>(low_bits(rows));
      const float* from = from_.at(tiles_.begin(tile), begin).data;
      float* to = panel(tile) + begin * rows;
      for (int64_t p = begin; p < end; ++p, from += from_.column_step, to += rows)
        _mm512_mask_storeu_ps(to, mask, _mm512_maskz_loadu_ps(mask, from));
    }
  }

  MatrixView from_;
  bool by_rows_;
  int64_t terms_;
  Pieces tiles_;
  float* panels_;
};

// The next sliver of B, laid in as many parts as there are tiles of A.
class LaidAhead {
 public:
  LaidAhead(const MatrixView& b, int64_t columns, int64_t terms, int64_t tiles, float* to)
      : b_(b), columns_(std::min(columns, kTileColumns)), terms_(terms), to_(to) {
    parts_ = {pieces_of(terms, unit()), tiles};
  }
  // What the tile is to ask for, and lay itself.
  NextSliver part(int64_t tile, int64_t tile_rows) {
    begin_ = std::min(terms_, parts_.begin(tile) * unit());
    end_ = std::min(terms_, parts_.begin(tile + 1) * unit());
    if (columns_ <= 0) begin_ = end_;
    if (begin_ == end_) return {};
    if (b_.column_step != 1) return {b_.at(begin_, 0).data, b_.column_step, columns_, nullptr};
    NextSliver next{b_.at(begin_, 0).data, b_.row_step, end_ - begin_, nullptr};
    if (columns_ < kTileColumns) return next;
    next.count = std::min(next.count, rows_laid_within(tile_rows, terms_));
    if (next.count > 0) next.laid = to_ + begin_ * kTileColumns;
    begin_ += next.count;
    return next;
  }
  // What the tile has not laid.
  void finish_part() const {
    if (begin_ < end_) lay_sliver(b_, columns_, begin_, end_, to_);
  }

 private:
  // Terms: of columns, two cache lines.
  int64_t unit() const { return b_.column_step == 1 ? 1 : 2 * kRegister; }

  MatrixView b_;
  int64_t columns_;
  int64_t terms_;
  float* to_;
  Pieces parts_{};
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

// A block of A by as many terms of B; `slivers` has room for two.
void multiply_block(const BlockOfA& a, const MatrixView& b, int64_t columns, int64_t terms,
                    const ProductTile& to, float* slivers) {
  float* sliver = slivers;
  float* next = slivers + terms * kTileColumns;
  a.lay_first();
  lay_sliver(b, std::min(columns, kTileColumns), 0, terms, sliver);
  for (int64_t column = 0; column < columns; column += kTileColumns) {
    const int64_t behind = column + kTileColumns;
    LaidAhead ahead(b.at(0, behind), columns - behind, terms, a.tiles().count, next);
    for (int64_t tile = 0; tile < a.tiles().count; ++tile) {
      const int64_t row = a.tiles().begin(tile);
      const NextSliver part = ahead.part(tile, a.tiles().length(tile));
      a.kernel(tile)(a.panel(tile), sliver, terms, to.at(row, column), low_bits(columns - column),
                     part, column == 0 ? a.ask_before(tile) : NextRows{});
      ahead.finish_part();
      if (column == 0) a.lay_after(tile);
    }
    std::swap(sliver, next);
  }
}

// Rows are divided evenly, so that tiles are nearly full; terms by their number only.
int64_t terms_of_a_block(int64_t terms) {
  const int64_t even = pieces_of(terms, pieces_of(terms, kBlockTerms));
  return std::min(terms, pieces_of(even, kTurn) * kTurn);
}

// In one thread; `panels` has room for a block of A, `slivers` for two of B.
void multiply(const MatrixView& a, const MatrixView& b, const ProductExtents& e,
              const ProductTile& to, float* panels, float* slivers) {
  const Pieces blocks{e.rows, pieces_of(e.rows, kBlockRows)};
  for (int64_t block = 0; block < blocks.count; ++block)
    for (int64_t term = 0, terms = terms_of_a_block(e.terms); term < e.terms; term += terms) {
      const int64_t row = blocks.begin(block);
      const int64_t count = std::min(terms, e.terms - term);
      const bool last = term + count == e.terms;
      multiply_block(BlockOfA(a.at(row, term), blocks.length(block), count, panels), b.at(term, 0),
                     e.columns, count, to.at(row, 0).of_terms(term == 0, last), slivers);
    }
}

PanelSizes panel_sizes(const MatmulProblem& p) {
  return {std::min(p.m, kBlockRows) * kRowStep, 2 * std::min(p.k, kBlockTerms) * kTileColumns};
}

}  // namespace
}  // namespace wide

bool has_wide_panels() { return __builtin_cpu_supports("avx512f") != 0; }

bool prefers_wide_panels() {
  static const bool quicker =
      has_wide_panels() && sysconf(_SC_LEVEL2_CACHE_SIZE) >= wide::kSecondCache;
  return quicker;
}

bool suits_wide_panels(const MatmulProblem& p) {
  return prefers_wide_panels() && p.batch == 1 && p.m >= wide::kLeastRows &&
         p.n >= wide::kLeastColumns && p.k >= wide::kLeastTerms;
}

size_t wide_panel_workspace_bytes(const MatmulProblem& p, int threads) {
  return panel_bytes(wide::panel_sizes(p), threads);
}

void multiply_wide_panels(const MatmulProblem& p, Matrix a, Matrix b, const float* bias, float* to,
                          Workspace workspace) {
  divide_product(p, {a, b, bias, to}, workspace, {wide::kTileRows, wide::kTileColumns},
                 wide::panel_sizes(p), wide::multiply);
}

}  // namespace kerf::ops::cpu
