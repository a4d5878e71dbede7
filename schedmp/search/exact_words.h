// The best words there are, of few stages and micro-batches: branch and bound over active schedules
// (Giffler and Thompson 1960), in which no action could be done earlier without delaying another.
// Some best schedule is active. Pure function.
#pragma once

#include <optional>

#include "schedmp/search/problem.h"

namespace kerf::schedmp {

struct ExactWords {
  std::vector<Word> words;  // empty: none take less than `below`
  bool proved = false;      // every other was looked at, or bounded
};

// Those that take less than `below`; looks at so many choices at most.
ExactWords exact_words(const SearchProblem& problem, double below, int64_t most_choices);

}  // namespace kerf::schedmp
