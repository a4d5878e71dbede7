// The pairs of changes that L-BFGS approximates the inverse of the Hessian by, as who holds no
// vector knows them: by their scalar products.
//
// With pairs s_i (of the point) and y_i (of the gradient) and the gradient g, the two-loop
// recursion (Nocedal and Wright, "Numerical Optimization", algorithm 7.4) only ever adds these
// vectors, so it can be done to factors of them: Chen, Wang and Zhou, "Large-scale L-BFGS using
// MapReduce", NIPS 2014. It takes g.g, all g.s_i, g.y_i and y_i.y_j, and s_i.y_j of pairs j no
// older than i. A new pair adds the products of its y: 4 * pairs + 1 sums an iteration, all in one
// command.
//
// Owned by one Lbfgs; no I/O.
#pragma once

#include <span>
#include <vector>

#include "schedmp/training/lbfgs_vectors.h"

namespace kerf::schedmp {

class LbfgsHistory {
 public:
  explicit LbfgsHistory(int most);

  int pairs() const { return count_; }
  void forget() { count_ = 0; }

  // Adds to `work` what makes a pair of the point and the gradient and of their bases; where there
  // is no room, the oldest pair goes.
  void add_pair(VectorWork& work);
  // What asks for the sums that a new gradient, and a new pair, need; and their answer, one for
  // each. A pair along which the gradient did not grow, but for rounding, goes again: without it
  // the approximation stays positive definite.
  void ask(VectorWork& work) const;
  void take(std::span<const double> sums);
  double squared_gradient() const { return gg_; }

  // For snapshots, as archives want it (schedmp/state.h); and whether what was read is of such a
  // history.
  template <class Archive>
  void state(Archive& archive) {
    archive(oldest_, count_, sy_, yy_, gs_, gy_, gg_);
  }
  bool is_sound() const;

  // Adds to `work` what makes the direction of minus the approximation times the base's gradient:
  // minus the gradient without pairs.
  void add_direction(VectorWork& work) const;

 private:
  // Of pairs by age, 0 the oldest: which vectors they have, and sums of them.
  int number(int age) const { return (oldest_ + age) % most_; }
  size_t place(int i, int j) const {
    return static_cast<size_t>(number(i)) * static_cast<size_t>(most_) +
           static_cast<size_t>(number(j));
  }
  double sy(int i, int j) const { return sy_[place(i, j)]; }
  double yy(int i, int j) const { return yy_[place(i, j)]; }
  double gs(int i) const { return gs_[static_cast<size_t>(number(i))]; }
  double gy(int i) const { return gy_[static_cast<size_t>(number(i))]; }

  int most_;
  int oldest_ = 0;
  int count_ = 0;
  std::vector<double> sy_, yy_;  // by place
  std::vector<double> gs_, gy_;  // by number
  double gg_ = 0;
};

}  // namespace kerf::schedmp
