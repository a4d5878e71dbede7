// Whether boxes have nothing in common, seen without looking at every pair of them. Pure functions.
#pragma once

#include <vector>

#include "ops/layout.h"

namespace kerf::partitioner {

// Whether they follow one another along some axis, so that no two meet; as shares of one axis do.
// False says nothing. Boxes of one rank. O(boxes log boxes).
bool follow_one_another(const std::vector<const ops::Box*>& boxes);

// Of terms, pieces, ... `all[i].box`.
template <class HasBox>
bool boxes_follow_one_another(const std::vector<HasBox>& all) {
  std::vector<const ops::Box*> boxes;
  boxes.reserve(all.size());
  for (const HasBox& each : all) boxes.push_back(&each.box);
  return follow_one_another(boxes);
}

}  // namespace kerf::partitioner
