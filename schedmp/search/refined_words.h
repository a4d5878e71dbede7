// Words made better by moving one action of one stage at a time: simulated annealing (Kirkpatrick,
// Gelatt and Vecchi 1983). Pure function but for the clock.
#pragma once

#include <cstdint>
#include <functional>

#include "schedmp/search/problem.h"

namespace kerf::schedmp {

// From `words`, which are legal, for so many seconds or until they take no more than `bound`; never
// longer ones. The same seed gives the same moves, but how many there are depends on the machine.
// `sign` is called now and then with the part of the time that is over.
std::vector<Word> refined_words(const SearchProblem& problem, std::vector<Word> words, double bound,
                                double seconds, uint64_t seed,
                                const std::function<void(double)>& sign);

}  // namespace kerf::schedmp
