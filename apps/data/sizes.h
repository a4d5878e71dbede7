// The sizes in the name of a data set that is made up: "4096x784x10".
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace kerf::apps {

using Sizes = std::array<int64_t, 3>;

// Rows, values per row, classes: each at least 1, and products small enough to hold. Throws
// Error{kUsage} that shows `form` and `example`.
Sizes parse_three_sizes(const std::string& sizes, const char* form, const char* example);

}  // namespace kerf::apps
