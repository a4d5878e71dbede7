#include "ops/grouped_axes.h"

#include <utility>

#include "ops/samples_axis.h"

namespace kerf::ops {

int add_axis(IterationSpace& space, IterationAxis axis) {
  space.axes.push_back(std::move(axis));
  return static_cast<int>(space.axes.size()) - 1;
}

GroupedAxes add_grouped_axes(IterationSpace& space, int64_t samples, int64_t groups,
                             int64_t outputs, int64_t inputs) {
  add_axis(space, samples_axis(samples));
  GroupedAxes axes;
  const bool grouped = groups > 1;
  if (grouped) axes.groups = add_axis(space, {AxisKind::kFeature, "groups", groups});
  axes.outputs = grouped ? add_axis(space, {AxisKind::kOther, "outputs of a group", outputs})
                         : add_axis(space, {AxisKind::kFeature, "outputs", outputs});
  axes.inputs = add_axis(space, {AxisKind::kSummed, "inputs", inputs});
  return axes;
}

}  // namespace kerf::ops
