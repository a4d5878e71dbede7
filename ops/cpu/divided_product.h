// How threads divide a product by panels: each has rows or columns of the result, whichever there
// are more of, in whole tiles, and panels of its own. Plain values, and one template.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ops/cpu/matrix_view.h"
#include "ops/simd/simd.h"
#include "ops/workspace.h"
#include "runtime/error.h"

namespace kerf::ops::cpu {

struct TileShape {
  int64_t rows;
  int64_t columns;
};

// Numbers that a thread lays in panels, of either matrix.
struct PanelSizes {
  int64_t a;
  int64_t b;
};

inline size_t panel_bytes(const PanelSizes& sizes, int threads) {
  return static_cast<size_t>(threads) * (piece_bytes<float>(sizes.a) + piece_bytes<float>(sizes.b));
}

struct ProductOperands {
  Matrix a;
  Matrix b;
  const float* bias;
  float* to;
};

// Calls multiply(a, b, extents, tile, panels of a, panels of b) in each of as many threads as the
// calling one has. Of one product; `workspace` has panel_bytes() for these threads.
template <class Multiply>
void divide_product(const MatmulProblem& p, const ProductOperands& of, Workspace workspace,
                    const TileShape& tile, const PanelSizes& sizes, const Multiply& multiply) {
  KERF_CHECK(p.batch == 1, "panels of {} products", p.batch);
  const MatrixView a = view_of(of.a, p.strides[0], p.m, p.k);
  const MatrixView b = view_of(of.b, p.strides[1], p.k, p.n);
  const int64_t row_step = p.strides[2] == 0 ? p.n : p.strides[2];
  const bool by_rows = p.m > p.n;
  const int64_t unit = by_rows ? tile.rows : tile.columns;
  const int64_t whole = by_rows ? p.m : p.n;
  const size_t share = panel_bytes(sizes, 1);
  auto* shares =
      workspace.take<std::byte>(static_cast<int64_t>(panel_bytes(sizes, omp_get_max_threads())));
  simd::parallel_numbered_pieces(
      (whole + unit - 1) / unit, 1, [&](int64_t piece, int64_t begin, int64_t end) {
        const int64_t from = begin * unit;
        const int64_t count = std::min(whole, end * unit) - from;
        Workspace own({shares + static_cast<size_t>(piece) * share, share});
        auto* panels_of_a = own.take<float>(sizes.a);
        auto* panels_of_b = own.take<float>(sizes.b);
        const ProductTile to{of.to, row_step, p.alpha, p.accumulate, of.bias};
        if (by_rows)
          multiply(a.at(from, 0), b, ProductExtents{count, p.n, p.k}, to.at(from, 0), panels_of_a,
                   panels_of_b);
        else
          multiply(a, b.at(0, from), ProductExtents{p.m, count, p.k}, to.at(0, from), panels_of_a,
                   panels_of_b);
      });
}

}  // namespace kerf::ops::cpu
