// The elements of a piece (piece_map.h) for bodies.
#pragma once

#include "ops/cuda/launch.cuh"
#include "ops/cuda/piece_map.h"

namespace kerf::ops::cuda {

struct PieceOffsets {
  int64_t local;
  int64_t piece;
};

// Of element `i`, numbered with the last axis fastest.
KERF_DEVICE PieceOffsets offsets_of(const PieceMap& map, int64_t i) {
  const PieceMap::Stretch* all = map.table != nullptr ? map.table : map.stretches;
  PieceOffsets offsets{0, 0};
  for (int64_t a = map.rank - 1; a >= 0; --a) {
    const PieceMap::Axis& axis = map.axes[a];
    const int64_t index = i % axis.count;
    i /= axis.count;
    // The last that begins at or before it.
    int64_t low = axis.first;
    int64_t high = axis.first + axis.stretches;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (all[middle].begin <= index ? low : high) = middle;
    }
    const PieceMap::Stretch& stretch = all[low];
    const int64_t inside = index - stretch.begin;
    offsets.local += (stretch.local + inside) * axis.local_stride;
    offsets.piece += (stretch.piece + inside) * axis.piece_stride;
  }
  return offsets;
}

}  // namespace kerf::ops::cuda
