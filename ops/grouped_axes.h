// The iterations that Conv and its mirror have in common: samples, groups, outputs and inputs.
#pragma once

#include <vector>

#include "ops/iteration.h"

namespace kerf::ops {

// Numbers of axes of an iteration space. One group has no axis, and its outputs are features that
// may be divided; of several, the groups are.
struct GroupedAxes {
  int groups = -1;
  int outputs = 0;  // of a group
  int inputs = 0;   // of a group, summed

  // An operand's axis that runs through all groups, and in each along `axis`.
  std::vector<int> of_group(int axis) const {
    return groups < 0 ? std::vector<int>{axis} : std::vector<int>{groups, axis};
  }
};

// Adds `axis` behind the others.
int add_axis(IterationSpace& space, IterationAxis axis);
// Of an empty space: samples become axis 0. Outputs and inputs are those of one group.
GroupedAxes add_grouped_axes(IterationSpace& space, int64_t samples, int64_t groups,
                             int64_t outputs, int64_t inputs);

}  // namespace kerf::ops
