#include "schedmp/variables/weight_tree.h"

#include "runtime/error.h"

namespace kerf::schedmp {

WeightTree::WeightTree(int64_t leaves) : leaves_(leaves) {
  KERF_CHECK(leaves >= 1, "a tree of {} leaves", leaves);
  nodes_.resize(2 * static_cast<size_t>(leaves));
}

void WeightTree::put(int64_t leaf, const Node& node) {
  KERF_CHECK(leaf >= 0 && leaf < leaves_, "leaf {} of {}", leaf, leaves_);
  auto i = static_cast<size_t>(leaf + leaves_);
  nodes_[i] = node;
  while ((i /= 2) >= 1) {
    const Node& left = nodes_[2 * i];
    const Node& right = nodes_[2 * i + 1];
    nodes_[i] = {left.sum + right.sum, left.count + right.count};
  }
}

void WeightTree::set(int64_t leaf, double weight) {
  KERF_CHECK(weight >= 0 && weight <= kMost, "leaf {} cannot weigh {}", leaf, weight);
  put(leaf, {weight, 1});
}

void WeightTree::remove(int64_t leaf) { put(leaf, {}); }

std::optional<int64_t> WeightTree::at(double share, double floor) const {
  KERF_CHECK(share >= 0 && share < 1 && floor >= 0 && floor <= kMost, "share {}, floor {}", share,
             floor);
  double rest = share * nodes_[1].weight(floor);
  if (nodes_[1].weight(floor) == 0) return std::nullopt;
  size_t i = 1;
  while (i < static_cast<size_t>(leaves_)) {
    const double left = nodes_[2 * i].weight(floor);
    i *= 2;
    // Rounding may leave a rest behind the last weight.
    if (rest < left || nodes_[i + 1].weight(floor) == 0) continue;
    rest -= left;
    ++i;
  }
  return static_cast<int64_t>(i) - leaves_;
}

}  // namespace kerf::schedmp
