// Names in a message: the first of them, and how many others there are.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/format.h"

namespace kerf::apps {

inline std::string few_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 4;
  const size_t told = std::min(kMost, names.size());
  const std::string first = fmt::format("{}", fmt::join(names.begin(), names.begin() + told, ", "));
  return told == names.size() ? first : format("{} and {} others", first, names.size() - told);
}

}  // namespace kerf::apps
