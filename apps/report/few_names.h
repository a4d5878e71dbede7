// Names in a text: the first of them, and how many others there are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/format.h"

namespace kerf::apps {

struct FewNames {
  size_t names = 4;           // told at most
  size_t letters = SIZE_MAX;  // of these together; the first is told whatever it has
};

inline std::string few_of(const std::vector<std::string>& names, const FewNames& most = {}) {
  std::string text;
  size_t told = 0;
  for (const std::string& name : names) {
    if (told == most.names || (told > 0 && text.size() + name.size() > most.letters)) break;
    text += (told++ > 0 ? ", " : "") + name;
  }
  const size_t left = names.size() - told;
  if (left > 0) text += format(" and {} {}", left, left == 1 ? "other" : "others");
  return text;
}

}  // namespace kerf::apps
