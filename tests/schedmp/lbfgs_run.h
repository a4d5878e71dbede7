// Has one Lbfgs minimise an objective over pieces of vectors.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "schedmp/training/lbfgs.h"
#include "tests/schedmp/lbfgs_objectives.h"
#include "tests/schedmp/lbfgs_pieces.h"

namespace kerf::schedmp::tests {

struct LbfgsEnded {
  std::vector<float> point;
  double loss = 0;
  int64_t iterations = 0;
  int64_t evaluations = 0;
  int64_t commands = 0;  // on vectors
  bool converged = false;
  std::string reason;
};

class LbfgsRun {
 public:
  // An objective that answers alike whenever it is asked is checked for Wolfe's conditions.
  LbfgsRun(Objective objective, std::vector<float> start, const LbfgsOptions& options, int pieces,
           bool steady)
      : objective_(std::move(objective)),
        vectors_(std::move(start), pieces, options.history),
        lbfgs_(options),
        steady_(steady),
        accepted_(vectors_.point) {}

  LbfgsEnded to_the_end() {
    int64_t commands = 0;
    while (lbfgs_.command().act != LbfgsAct::kStop) {
      if (lbfgs_.command().act == LbfgsAct::kEvaluate) {
        lbfgs_.tell(value_at(vectors_.point, vectors_.gradient));
        continue;
      }
      const int64_t before = lbfgs_.iterations();
      lbfgs_.tell(vectors_.run(lbfgs_.command().work));
      if (lbfgs_.iterations() > before) accept();
      if (++commands > 100'000) throw std::runtime_error("no end");
    }
    EXPECT_EQ(vectors_.point, accepted_) << lbfgs_.reason();
    return {accepted_, lbfgs_.loss(),      lbfgs_.iterations(), lbfgs_.evaluations(),
            commands,  lbfgs_.converged(), lbfgs_.reason()};
  }

 private:
  double value_at(const std::vector<float>& point, std::vector<float>& gradient) {
    std::vector<double> exact(point.size());
    const double value = objective_(point, exact);
    for (size_t i = 0; i < exact.size(); ++i) gradient[i] = static_cast<float>(exact[i]);
    return value;
  }
  // Along the line from the last point that was accepted to this one. It is rounded, so not quite
  // on the line.
  void accept() {
    const std::vector<float> last = std::exchange(accepted_, vectors_.point);
    if (!steady_) return;
    std::vector<float> gradients[2] = {last, last};
    const double fell = value_at(last, gradients[0]) - value_at(accepted_, gradients[1]);
    double slopes[2] = {};
    for (size_t i = 0; i < last.size(); ++i)
      for (const int end : {0, 1})
        slopes[end] += double{gradients[end][i]} * (double{accepted_[i]} - double{last[i]});
    EXPECT_GE(fell, -0.99e-3 * slopes[0]);
    EXPECT_LE(std::abs(slopes[1]), -0.901 * slopes[0]);
  }

  Objective objective_;
  LbfgsPieces vectors_;
  Lbfgs lbfgs_;
  bool steady_;
  std::vector<float> accepted_;
};

inline LbfgsEnded minimise(const Objective& objective, const std::vector<float>& start,
                           const LbfgsOptions& options = {}, int pieces = 1, bool steady = true) {
  return LbfgsRun(objective, start, options, pieces, steady).to_the_end();
}

}  // namespace kerf::schedmp::tests
