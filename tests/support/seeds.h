// The seeds of a property: those of a short run, or KERF_SEEDS=FIRST-LAST of the environment.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace kerf::tests {

inline auto seeds(int first, int last) {
  const char* text = std::getenv("KERF_SEEDS");
  if (text != nullptr && std::sscanf(text, "%d-%d", &first, &last) != 2) {
    std::fprintf(stderr, "KERF_SEEDS is FIRST-LAST, not %s\n", text);
    std::abort();
  }
  return ::testing::Range(first, last + 1);
}

}  // namespace kerf::tests
