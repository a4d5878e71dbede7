#include "apps/lda/rising_logs.h"

#include <cmath>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr size_t kTableOfLogs = 4096;

// log Gamma(x), less a constant, for large x.
double stirling(double x) {
  const double y = 1 / (x * x);
  return (x - 0.5) * std::log(x) - x + (1.0 / 12 - y / 360) / x;
}

}  // namespace

RisingLogs::RisingLogs(double first) : first_(first), table_(kTableOfLogs) {
  KERF_CHECK(first > 0 && std::isfinite(first), "a rising factorial of {}", first);
  for (size_t n = 1; n < table_.size(); ++n)
    table_[n] = table_[n - 1] + std::log(first + static_cast<double>(n - 1));
}

double RisingLogs::beyond_table(int64_t n) const {
  const auto last = static_cast<double>(table_.size() - 1);
  return table_.back() + stirling(first_ + static_cast<double>(n)) - stirling(first_ + last);
}

}  // namespace kerf::apps
