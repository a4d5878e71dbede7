// How long words take, played stage by stage: what a search asks thousands of times a second. The
// same as unfold.h with messages that wait for nobody. Used by one thread.
#pragma once

#include <vector>

#include "schedmp/search/problem.h"

namespace kerf::schedmp {

class WordTimes {
 public:
  explicit WordTimes(const SearchProblem& problem);  // which outlives it

  // Infinite where the words wait for each other for ever.
  double makespan(const std::vector<Word>& words);

 private:
  struct Stage {
    size_t at = 0;  // in its word
    double now = 0;
    std::vector<double> forward, gradient;  // ends so far, by micro-batch
  };
  bool advance(int stage, const Word& word);  // as far as it can; whether that is anywhere
  bool arrives(const std::vector<int>& others, std::vector<double> Stage::*ends, size_t micro_batch,
               double& now) const;

  const SearchProblem& problem_;
  std::vector<Stage> stages_;
};

}  // namespace kerf::schedmp
