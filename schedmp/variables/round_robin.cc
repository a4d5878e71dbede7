#include "schedmp/variables/round_robin.h"

#include "runtime/error.h"
#include "schedmp/variables/variables.h"

namespace kerf::schedmp {

RoundRobin::RoundRobin(int64_t variables, int64_t size)
    : variables_(checked_variables(variables)), size_(size) {
  if (size < 1 || size > variables)
    throw Error(ErrorCode::kUsage,
                format("a set of {} of {} variables; take 1 to {}", size, variables, variables));
}

std::vector<int64_t> RoundRobin::set(int64_t round) const {
  KERF_CHECK(round >= 0, "round {}", round);
  // The sets begin again where they began after as many rounds as there are variables; below that
  // the product is below 2^64.
  const uint64_t passed = static_cast<uint64_t>(round % variables_) * static_cast<uint64_t>(size_);
  const auto first = static_cast<int64_t>(passed % static_cast<uint64_t>(variables_));
  std::vector<int64_t> set;
  for (int64_t i = 0; i < size_; ++i) set.push_back((first + i) % variables_);
  return set;
}

}  // namespace kerf::schedmp
