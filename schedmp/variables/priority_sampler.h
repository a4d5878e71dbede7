// Priority sampling: variables that changed much are drawn often, as in STRADS (Lee et al., NIPS
// 2014; Kim et al., EuroSys 2016). Each draw takes a variable with probability in proportion to
//
//   |delta| + floor x (mean |delta|)
//
// among those that are not drawn already, in O(log n); delta is by how much its last update changed
// it. The floor adapts: it falls as changes do, and variables that stand still have a share of
// floor / (1 + floor) of the draws at most, however many there are; yet none of them starves.
//
// The first pass is uniform without replacement (ops::permutation), so that every variable has a
// delta; a program that knows all deltas otherwise says so by restart(). What is drawn is not drawn
// again before its result is there. By priority alone updates may diverge, since what changes
// together is drawn together: dependency_filter.h.
//
// Draw i takes 53 bits of block i of the stream {seed, kSamplingPurpose}: the same seed and the
// same calls give the same sets. 41 bytes a variable. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/random.h"
#include "schedmp/variables/weight_tree.h"

namespace kerf::schedmp {

class PrioritySampler {
 public:
  static constexpr double kFloor = 0.05;

  // Throws Error{kUsage} unless there are 1 to 2^32 variables and 0 < floor <= 1.
  PrioritySampler(int64_t variables, uint64_t seed, double floor = kFloor);

  // At most so many distinct variables, fewer where the others are drawn; none: nothing can begin
  // before a result is in.
  std::vector<int64_t> draw(int64_t most);
  // The result of a variable that was drawn. Throws Error{kUsage} if it is not finite.
  void result(int64_t variable, double delta);
  // What every variable would change by now, whether it was drawn before or not. Those that are
  // drawn keep what their results will say. There is no first pass then.
  void restart(std::span<const double> deltas);

  bool in_first_pass() const { return next_ < std::ssize(first_pass_); }
  // What a snapshot holds of it, of one that was made of the same arguments.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(draws_, first_pass_, next_, magnitudes_, drawn_);
  }

 private:
  int64_t draw_by_priority();

  void keep(int64_t variable, double delta);

  double floor_;
  ops::RandomStream stream_;
  uint64_t draws_ = 0;
  std::vector<int64_t> first_pass_;
  int64_t next_ = 0;
  WeightTree magnitudes_;  // of the variables that have a delta and are not drawn
  std::vector<uint8_t> drawn_;
};

}  // namespace kerf::schedmp
