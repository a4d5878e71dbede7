// Each element once: boxes that together are another, and what routes bring of a value.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "partitioner/sources.h"

namespace kerf::partitioner {

// Boxes that have nothing in common, within `whole`, and as many elements as it. `shape` is
// concrete.
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

// Every element that a part needs of the value is its own or comes from exactly one other part that
// holds it. Of a value without partial sums.
inline void expect_brought_once(const Sources& sources, const std::vector<Route>& routes,
                                ValueId value) {
  const ops::Shape shape = sources.shape(value);
  for (const int part : sources.readers(value)) {
    const ops::Box& need = *sources.need(value, part);
    std::vector<ops::Box> boxes;
    if (const ops::Share* own = sources.held(value, part))
      if (auto mine = ops::normalized(ops::intersect(own->box, need), shape); !mine.empty())
        boxes.push_back(std::move(mine));
    for (const Route& route : routes) {
      if (route.value != value || route.gradient || route.to != part) continue;
      for (const Piece& piece : route.pieces) {
        EXPECT_TRUE(piece.contributions.empty());
        EXPECT_TRUE(sources.held(value, route.from)->box.contains(piece.box));
        boxes.push_back(piece.box);
      }
    }
    expect_exact_cover(boxes, need, shape);
  }
}

}  // namespace kerf::partitioner
