// Uniform sampling without replacement: every pass draws every variable once, in an order of its
// own (ops::permutation of seed and pass). Shalev-Shwartz and Zhang (JMLR 2013) measured coordinate
// ascent in such orders ahead of independent draws.
//
// What is drawn is under way until it is done, and is not drawn before. A variable whose turn comes
// while it is under way is postponed: it comes first as soon as it is done, and the next pass does
// not begin without it. So the numbers of times that two variables were drawn never differ by more
// than one. A set may hold the end of a pass and the beginning of the next.
//
// The same seed and the same calls give the same sets. Memory: 17 bytes a variable. One thread.
#pragma once

#include <cstdint>
#include <vector>

namespace kerf::schedmp {

class UniformSampler {
 public:
  // Throws Error{kUsage} unless there are 1 to 2^32 variables.
  UniformSampler(int64_t variables, uint64_t seed);

  // At most so many distinct variables, fewer where the others are under way or wait for the end of
  // a pass; none: nothing can begin before something is done.
  std::vector<int64_t> draw(int64_t most);
  // The result of a variable that is under way was folded in.
  void done(int64_t variable);
  // Of the order from which it draws now, from 0.
  int64_t pass() const { return pass_; }
  // What a snapshot holds of it, of one that was made of the same arguments.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pass_, order_, next_, postponed_, under_way_);
  }

 private:
  void take(int64_t variable, std::vector<int64_t>& set);

  uint64_t seed_;
  int64_t pass_ = 0;
  std::vector<int64_t> order_;
  int64_t next_ = 0;                // place in the order
  std::vector<int64_t> postponed_;  // those of this pass whose turn has come, in that order
  std::vector<uint8_t> under_way_;  // by variable
};

}  // namespace kerf::schedmp
