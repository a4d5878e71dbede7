// The sizes in the name of a data set: "4096x784x10". Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::apps {

inline constexpr int64_t kMostValues = int64_t{1} << 29;  // 2 GiB of float32

// So many sizes, each at least 1 and at most kMostValues, and so is the product of the first
// `held`, which lie in memory together. Throws Error{kUsage} that shows `form` and `example`.
std::vector<int64_t> parse_sizes(const std::string& sizes, size_t count, size_t held,
                                 const char* form, const char* example);

}  // namespace kerf::apps
