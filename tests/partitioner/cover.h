// Boxes that together are another, each element of it once.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "ops/layout.h"

namespace kerf::partitioner {

// Boxes that have nothing in common, within `whole`, and as many elements as it. `shape` is concrete.
inline void expect_exact_cover(const std::vector<ops::Box>& boxes, const ops::Box& whole,
                               const ops::Shape& shape) {
  int64_t sum = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_TRUE(whole.contains(boxes[i])) << ops::to_string(boxes[i]);
    for (size_t j = 0; j < i; ++j) EXPECT_TRUE(ops::intersect(boxes[i], boxes[j]).empty());
    sum += ops::local_shape(boxes[i], shape).elements();
  }
  EXPECT_EQ(sum, ops::local_shape(whole, shape).elements());
}

}  // namespace kerf::partitioner
