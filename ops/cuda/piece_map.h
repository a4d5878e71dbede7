// Where the elements of a Selection's piece lie, for a device: the product of stretches of indices
// along a few axes.
//
// A plain value that travels with the launch, with its stretches where these are few, else with a
// table of them on the device (a free cut's). piece_map.cuh reads it.
#pragma once

#include <cstdint>

#include "ops/tensor.h"

namespace kerf::ops::cuda {

struct PieceMap {
  static constexpr int kMostStretches = 96;

  struct Stretch {
    int64_t begin = 0;  // number of its first index along the axis
    int64_t local = 0;
    int64_t piece = 0;
  };
  struct Axis {
    int64_t count = 0;
    int64_t local_stride = 0;
    int64_t piece_stride = 0;
    int64_t first = 0;  // of its stretches
    int64_t stretches = 0;
  };

  Axis axes[Shape::kMaxRank];
  Stretch stretches[kMostStretches];
  const Stretch* table = nullptr;  // instead of them
  int64_t rank = 0;
  int64_t elements = 0;
};

}  // namespace kerf::ops::cuda
