// What stages to come bring in at the least, whatever they are: for a search of ideals for the
// fewest bytes, so that it leaves early what cannot become better.
//
// A unit is in no ideal of less work than the least that has it. So of what an ideal has for others
// to read, values of such units cannot cross a boundary before that, and were not counted there:
//
//   work        ────────┬───────────────┬──────────>
//   boundaries        before          ideal          fresh bytes: of values that others will read
//                                                    and whose unit is in no ideal of `before`
//
// The least sum of fresh bytes over boundaries no further apart than the price of a stage, whether
// or not one ideal has the other, is below the bytes of every division: dynamic programming over
// steps of work. Plain values, immutable.
#pragma once

#include <vector>

#include "partitioner/cuts/ideal_facts.h"

namespace kerf::partitioner {

class BytesToGo {
 public:
  struct Task {
    int stages = 0;
    double price = 0;         // of a stage, which has no more work than that
    bool keep_close = false;  // boundaries part no units that are better together
  };

  BytesToGo() = default;  // nothing is known
  // `left`: ideal -> the least work that it lacks.
  BytesToGo(const Units& units, const Ideals& ideals, const IdealFacts& facts,
            const std::vector<double>& left, const Task& task);

  // Of the boundaries behind the ideal, which ends the stage before `stage`.
  double behind(int ideal, int stage) const {
    if (step_.empty()) return 0;
    return least_[static_cast<size_t>(stage)]
                 [static_cast<size_t>(step_[static_cast<size_t>(ideal)])];
  }

 private:
  std::vector<int> step_;                   // ideal -> that of its work
  std::vector<std::vector<double>> least_;  // [stage][step of the boundary that it begins at]
};

}  // namespace kerf::partitioner
