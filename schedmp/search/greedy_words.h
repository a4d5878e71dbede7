// Words made action by action, each stage taking what may start first: list scheduling. Pure
// function.
#pragma once

#include "schedmp/search/problem.h"

namespace kerf::schedmp {

struct GreedyRule {
  // A weight gradient is made where everything else would start later than this part of what it
  // takes.
  double patience = 0;
  // What is preferred, a forward or an input gradient, is awaited for this part of its own time
  // beyond the other's start; below 0 it has to start earlier than that one.
  double wait = 0;
  bool forwards_first = false;
};

// Empty where they come to a stop.
std::vector<Word> greedy_words(const SearchProblem& problem, const GreedyRule& rule);

}  // namespace kerf::schedmp
