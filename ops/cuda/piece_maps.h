// The maps of the pieces that a worker moves, each made at its first use and kept: a steady step
// makes none.
//
// Owned by the workbench; its compute thread.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "ops/cuda/device_table.h"
#include "ops/cuda/piece_map.h"
#include "ops/pack.h"

namespace kerf::ops::cuda {

class PieceMaps {
 public:
  // For a micro-batch of `samples`. Throws Error{kUnavailable} where memory for a table is short.
  const PieceMap& of(const Queue& queue, const Selection& selection, int64_t samples);

 private:
  struct Kept {
    std::shared_ptr<const void> identity;  // so that no other selection is taken for this one
    PieceMap map;
    std::unique_ptr<DeviceTable> table;
  };
  std::map<std::pair<const void*, int64_t>, Kept> kept_;
};

}  // namespace kerf::ops::cuda
