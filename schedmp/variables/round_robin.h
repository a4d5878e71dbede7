// Variables in turn, in sets of one size: the plainest way to choose what a round works on. The
// sets are laid end to end over 0, 1, ..., n - 1, 0, 1, ..., so one may hold the last variables and
// the first.
//
// The sets of `depth` rounds in a row have no variable in common as long as depth x size is at most
// n; a program that runs further ahead than that takes UniformSampler, which knows what is under
// way. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace kerf::schedmp {

class RoundRobin {
 public:
  // Throws Error{kUsage} unless 1 <= size <= variables <= 2^32.
  RoundRobin(int64_t variables, int64_t size);
  // Of this round, from 0.
  std::vector<int64_t> set(int64_t round) const;

 private:
  int64_t variables_;
  int64_t size_;
};

}  // namespace kerf::schedmp
