// The variables that a program solves for, by number: 0, 1, ..., n - 1.
#pragma once

#include <cstdint>

namespace kerf::schedmp {

inline constexpr int64_t kMostVariables = int64_t{1} << 32;

// So many of them. Throws Error{kUsage} unless there is one, and kMostVariables at most.
int64_t checked_variables(int64_t variables);

}  // namespace kerf::schedmp
