// What searches of ideals under all limits go by. Plain values, immutable.
#pragma once

#include <span>
#include <vector>

#include "partitioner/ideals.h"

namespace kerf::partitioner {

struct IdealFacts {
  IdealFacts(const Units& units, const Ideals& ideals);

  // Values of an ideal that others will read, by number.
  std::span<const int> alive_in(int ideal) const {
    const auto begin = from_[static_cast<size_t>(ideal)];
    return {values_.data() + begin, from_[static_cast<size_t>(ideal) + 1] - begin};
  }

  std::vector<double> alive;  // ideal -> bytes of those
  std::vector<bool> parted;   // ideals that part units which are better together

 private:
  std::vector<int> values_;
  std::vector<size_t> from_;
};

}  // namespace kerf::partitioner
