// A sum tree: leaves with weights, of which one is drawn in proportion in O(log n). Leaves can be
// absent; every present one weighs as much more as `floor` says, which is given with the draw, so
// that it may change between two draws without a leaf being touched.
//
// An inner node is the sum of its two children, made anew whenever one changes: nothing is ever
// subtracted, so sums do not drift, are never negative, and depend on the weights that are there,
// not on those that were. 32 bytes a leaf. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kerf::schedmp {

class WeightTree {
 public:
  // Of a leaf, and of the floor: no sum of them overflows.
  static constexpr double kMost = 1e280;

  // All leaves are absent.
  explicit WeightTree(int64_t leaves);

  // The leaf is present and weighs that much, from 0 to kMost.
  void set(int64_t leaf, double weight);
  void remove(int64_t leaf);

  // Of the leaves that are present.
  int64_t count() const { return nodes_[1].count; }
  double sum() const { return nodes_[1].sum; }

  // The leaf at `share`, in [0, 1), of all that the present leaves weigh, which lie behind each
  // other in a fixed order of the tree's own: a uniform share draws in proportion to the weights.
  // Never one that is absent or weighs nothing; empty where all do.
  std::optional<int64_t> at(double share, double floor) const;
  // What a snapshot holds of it, of one that was made of the same arguments.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(nodes_);
  }

 private:
  struct Node {
    double sum = 0;
    int64_t count = 0;
    double weight(double floor) const { return sum + floor * static_cast<double>(count); }
    template <class Archive>
    void serialize(Archive& archive) {
      archive(sum, count);
    }
  };
  void put(int64_t leaf, const Node& node);

  int64_t leaves_;
  std::vector<Node> nodes_;  // children of i: 2i and 2i + 1; the leaves are the last half
};

}  // namespace kerf::schedmp
