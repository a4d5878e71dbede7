// Logarithms of rising factorials, which likelihoods of counts under a Dirichlet prior consist of:
//
//   of(n) = log(c (c + 1) ... (c + n - 1)) = log Gamma(c + n) - log Gamma(c)
//
// Small n by a table, others by Stirling's series, good to 1e-13. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kerf::apps {

class RisingLogs {
 public:
  // first: c, above 0.
  explicit RisingLogs(double first);

  double of(int64_t n) const {
    return n < std::ssize(table_) ? table_[static_cast<size_t>(n)] : beyond_table(n);
  }

 private:
  double beyond_table(int64_t n) const;

  double first_;
  std::vector<double> table_;
};

}  // namespace kerf::apps
