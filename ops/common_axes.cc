#include "ops/common_axes.h"

#include <utility>

namespace kerf::ops {
namespace {

// An extent that is left of an axis: `count`, times the samples if `samples`.
struct Extent {
  int64_t count = 1;
  bool samples = false;

  static Extent of(int64_t extent) { return {extent < 0 ? -extent : extent, extent < 0}; }
  bool one() const { return count == 1 && !samples; }
  bool divides(const Extent& other) const {
    return count > 0 && other.count % count == 0 && (!samples || other.samples);
  }
  Extent without(const Extent& factor) const {
    return {count / factor.count, samples && !factor.samples};
  }
  Extent times(const Extent& other) const {
    return {count * other.count, samples || other.samples};
  }
  int64_t symbolic() const { return samples ? -count : count; }
  bool operator==(const Extent&) const = default;
};

// Walks both shapes from the slowest axis on and cuts them at the same places.
class Cutter {
 public:
  Cutter(const Shape& from, const Shape& to) : shapes_{from, to} {
    space_.inputs.resize(1);
    space_.outputs.resize(1);
    map(0).axes.resize(static_cast<size_t>(from.rank()));
    map(1).axes.resize(static_cast<size_t>(to.rank()));
  }

  IterationSpace run() {
    take(0);
    take(1);
    while (axis_[0] < shapes_[0].rank() && axis_[1] < shapes_[1].rank()) {
      if (left_[0].divides(left_[1]))
        cut(left_[0]);
      else if (left_[1].divides(left_[0]))
        cut(left_[1]);
      else
        merge();
    }
    forbid_inner_samples();
    return std::move(space_);
  }

 private:
  OperandMap& map(int side) { return side == 0 ? space_.inputs[0] : space_.outputs[0]; }
  std::vector<int>& axes(int side) { return map(side).axes[static_cast<size_t>(axis_[side])].axes; }
  // The extent of the axis that the side is at; axes of one index have no iterations.
  void take(int side) {
    while (axis_[side] < shapes_[side].rank()) {
      left_[side] = Extent::of(shapes_[side][axis_[side]]);
      if (!left_[side].one()) return;
      ++axis_[side];
    }
  }
  void advance(int side, const Extent& done) {
    left_[side] = left_[side].without(done);
    if (!left_[side].one()) return;
    ++axis_[side];
    take(side);
  }

  // One iteration axis that both sides have.
  void cut(Extent extent) {  // a copy: what is left is changed
    const auto number = static_cast<int>(space_.axes.size());
    IterationAxis axis{.extent = extent.symbolic()};
    axis.kind = extent.samples ? AxisKind::kSample
                : number == 1  ? AxisKind::kFeature
                               : AxisKind::kSpace;
    axis.name = extent.samples ? "samples" : format("axis {}", number);
    space_.axes.push_back(std::move(axis));
    for (const int side : {0, 1}) axes(side).push_back(number);
    for (const int side : {0, 1}) advance(side, extent);
  }

  // Neither extent divides the other: axes are taken together until they agree, and stay whole.
  void merge() {
    const auto number = static_cast<int>(space_.axes.size());
    const char* const why = "the shapes have no axes in common there";
    Extent all[2] = {left_[0], left_[1]};
    const auto leave = [&](int side) {
      // Needed whole, with whatever was cut off it before, which the other side has alone then.
      for (const int axis : axes(side)) space_.axes[static_cast<size_t>(axis)].undivided = why;
      axes(side).clear();
      ++axis_[side];
      take(side);
    };
    for (const int side : {0, 1}) leave(side);
    while (!(all[0] == all[1])) {
      const int side = all[0].count < all[1].count || (all[1].samples && !all[0].samples) ? 0 : 1;
      if (axis_[side] >= shapes_[side].rank()) break;
      all[side] = all[side].times(left_[side]);
      leave(side);
    }
    space_.axes.push_back(
        {AxisKind::kOther, format("axis {}", number), all[0].symbolic(), 1, false, why});
  }

  // Samples that are not the slowest of their axis lie apart, and where depends on how many there
  // are.
  void forbid_inner_samples() {
    for (const int side : {0, 1})
      for (const OperandAxis& axis : map(side).axes)
        for (size_t i = 1; i < axis.axes.size(); ++i) {
          IterationAxis& inner = space_.axes[static_cast<size_t>(axis.axes[i])];
          if (inner.extent < 0) inner.undivided = "its samples do not lie together";
        }
  }

  IterationSpace space_;
  Shape shapes_[2];
  int axis_[2] = {0, 0};
  Extent left_[2];
};

}  // namespace

IterationSpace common_axes(const Shape& from, const Shape& to) { return Cutter(from, to).run(); }

}  // namespace kerf::ops
