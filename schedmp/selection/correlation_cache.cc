#include "schedmp/selection/correlation_cache.h"

#include <cmath>
#include <limits>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

CorrelationCache::CorrelationCache(int64_t most_pairs) : most_young_(most_pairs / 2) {
  if (most_pairs < 2)
    throw Error(ErrorCode::kUsage,
                format("a cache of {} correlations; it must hold 2, and should hold all pairs "
                       "between the candidates of a set and those of the sets in flight",
                       most_pairs));
}

void CorrelationCache::keep(int64_t variable, int64_t other, double correlation) {
  young_.set(variable, other, correlation);
  if (young_.size() >= most_young_) old_ = std::exchange(young_, {});
}

// Moved to the young generation.
std::optional<double> CorrelationCache::used(int64_t variable, int64_t other) {
  if (const double* found = young_.find(variable, other)) return *found;
  const double* found = old_.find(variable, other);
  if (found == nullptr) return std::nullopt;
  const double correlation = *found;
  keep(variable, other, correlation);
  return correlation;
}

std::optional<double> CorrelationCache::find(int64_t variable, int64_t other) {
  const auto found = used(variable, other);
  return found && std::isnan(*found) ? std::nullopt : found;
}

bool CorrelationCache::is_missing(int64_t variable, int64_t other) {
  return !used(variable, other).has_value();
}

void CorrelationCache::learn(int64_t variable, int64_t other, double correlation) {
  KERF_CHECK(std::isfinite(correlation), "a correlation of {}", correlation);
  keep(variable, other, correlation);
}

void CorrelationCache::expect(int64_t variable, int64_t other) {
  keep(variable, other, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace kerf::schedmp
