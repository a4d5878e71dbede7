// Priority sampling: variables that changed much are drawn often, as in STRADS (Lee et al., NIPS
// 2014; Kim et al., EuroSys 2016). Each draw takes a variable with probability in proportion to
//
//   |delta| + floor x (running mean of |delta|)
//
// among those that are not under way, in O(log n); delta is by how much its last update changed it.
// The floor adapts: it falls as changes do, so that few draws are spent on variables that stand
// still, and yet none of them starves. The mean runs over as many results as there are variables: a
// result counts 1/n, or 1/k while only k are there.
//
// The first pass is uniform without replacement (ops::permutation), so that every variable has a
// delta. What is drawn is under way until its result is there, and is not drawn before. By priority
// alone updates may diverge, since what changes together is drawn together: dependency_filter.h.
//
// Draw i takes 53 bits of block i of the stream {seed, kSamplingPurpose}: the same seed and the
// same calls give the same sets. 41 bytes a variable. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/random.h"
#include "schedmp/selection/weight_tree.h"

namespace kerf::schedmp {

class PrioritySampler {
 public:
  // From 0.0003 to 0.001 was measured to be good on Lasso.
  static constexpr double kFloor = 0.001;

  // Throws Error{kUsage} unless there are 1 to 2^32 variables and 0 < floor <= 1.
  PrioritySampler(int64_t variables, uint64_t seed, double floor = kFloor);

  // At most so many distinct variables, fewer where the others are under way; none: nothing can
  // begin before a result is in.
  std::vector<int64_t> draw(int64_t most);
  // The result of a variable that is under way. Throws Error{kUsage} if it is not finite.
  void result(int64_t variable, double delta);

  // Running, of |delta|.
  double mean() const { return mean_; }
  bool in_first_pass() const { return next_ < std::ssize(first_pass_); }

 private:
  int64_t draw_by_priority();

  double floor_;
  ops::RandomStream stream_;
  uint64_t draws_ = 0;
  std::vector<int64_t> first_pass_;
  int64_t next_ = 0;
  WeightTree magnitudes_;  // of the variables that have a delta and are not under way
  std::vector<uint8_t> under_way_;
  double mean_ = 0;
  int64_t results_ = 0;
};

}  // namespace kerf::schedmp
