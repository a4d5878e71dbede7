// Patterns of names, as "layer1.*" or "*.bias": * stands for any text, ? for one character, and all
// else for itself.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::ops {

inline bool fits_pattern(std::string_view name, std::string_view pattern) {
  size_t n = 0;
  size_t p = 0;
  size_t star = std::string_view::npos;  // the last one, and where what it stands for ends
  size_t from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

inline bool fits_any(std::string_view name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return fits_pattern(name, pattern); });
}

}  // namespace kerf::ops
