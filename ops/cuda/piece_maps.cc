#include "ops/cuda/piece_maps.h"

#include <algorithm>
#include <vector>

namespace kerf::ops::cuda {
namespace {

// A worker has as many selections as there are different ones among its moves, for each size of its
// micro-batches; who has more (tests) begins anew.
constexpr size_t kMostKept = 1 << 14;

// An axis with its stretches clipped to the micro-batch.
struct ClippedAxis {
  struct Stretch {
    int64_t local = 0;
    int64_t piece = 0;
    int64_t count = 0;
  };
  std::vector<Stretch> stretches;
  int64_t local_stride = 0;
  int64_t piece_stride = 0;

  int64_t count() const {
    int64_t count = 0;
    for (const Stretch& stretch : stretches) count += stretch.count;
    return count;
  }
  // The axis inside of this one, all of it, becomes part of it.
  bool absorb(const ClippedAxis& inner) {
    if (inner.stretches.size() != 1) return false;
    const auto& all = inner.stretches[0];
    if (all.local != 0 || all.piece != 0 || local_stride != all.count * inner.local_stride ||
        piece_stride != all.count * inner.piece_stride)
      return false;
    for (Stretch& stretch : stretches)
      stretch = {stretch.local * all.count, stretch.piece * all.count, stretch.count * all.count};
    local_stride = inner.local_stride;
    piece_stride = inner.piece_stride;
    return true;
  }
};

std::vector<ClippedAxis> clipped_axes(const Selection& selection, int64_t samples) {
  std::vector<ClippedAxis> axes;
  for (const Selection::AxisMap& map : selection.axis_maps(samples)) {
    ClippedAxis axis{{}, map.local_stride, map.piece_stride};
    for (const Selection::Stretch& stretch : map.stretches)
      if (const int64_t count = stretch.clipped(map.extent); count > 0)
        axis.stretches.push_back({stretch.local, stretch.piece, count});
    if (axes.empty() || !axes.back().absorb(axis)) axes.push_back(std::move(axis));
  }
  return axes;
}

// All stretches, those of an axis together.
std::vector<PieceMap::Stretch> lay_out(const std::vector<ClippedAxis>& axes, PieceMap& map) {
  std::vector<PieceMap::Stretch> all;
  map.elements = 1;
  for (const ClippedAxis& from : axes) {
    PieceMap::Axis& axis = map.axes[map.rank++];
    axis = {0, from.local_stride, from.piece_stride, std::ssize(all), std::ssize(from.stretches)};
    for (const auto& stretch : from.stretches) {
      all.push_back({axis.count, stretch.local, stretch.piece});
      axis.count += stretch.count;
    }
    map.elements *= axis.count;
  }
  return all;
}

std::vector<int64_t> numbers_of(const std::vector<PieceMap::Stretch>& stretches) {
  std::vector<int64_t> numbers;
  for (const PieceMap::Stretch& each : stretches)
    numbers.insert(numbers.end(), {each.begin, each.local, each.piece});
  return numbers;
}

}  // namespace

const PieceMap& PieceMaps::of(const Queue& queue, const Selection& selection, int64_t samples) {
  const std::pair<const void*, int64_t> key{selection.identity().get(), samples};
  if (const auto found = kept_.find(key); found != kept_.end()) return found->second.map;
  if (kept_.size() >= kMostKept) kept_.clear();
  Kept kept{selection.identity(), {}, {}};
  if (selection.bytes(samples) > 0) {
    const auto all = lay_out(clipped_axes(selection, samples), kept.map);
    if (all.size() <= PieceMap::kMostStretches) {
      std::copy(all.begin(), all.end(), kept.map.stretches);
    } else {
      static_assert(sizeof(PieceMap::Stretch) == 3 * sizeof(int64_t));
      kept.table = std::make_unique<DeviceTable>(queue, numbers_of(all));
      kept.map.table = reinterpret_cast<const PieceMap::Stretch*>(kept.table->data());
    }
  }
  return kept_.emplace(key, std::move(kept)).first->second.map;
}

}  // namespace kerf::ops::cuda
