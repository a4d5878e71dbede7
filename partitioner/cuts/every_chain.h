// Every division of a graph with few of them: each chain of so many ideals, none of whose stages is
// empty. For what only the finished division shows, so that no search knows it beforehand: the
// memory that a plan takes, or a cycle in a backward half. A pure function.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "partitioner/ideals.h"

namespace kerf::partitioner {

using Chain = std::vector<int>;  // ideals, one per stage; the last has every unit

// None if there are more than `most`, an empty list if there are fewer units than stages. How many
// there are is known after so many steps times units.
std::optional<std::vector<Chain>> every_chain(const Ideals& ideals, int units, int stages,
                                              size_t most);

}  // namespace kerf::partitioner
