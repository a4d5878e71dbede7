// An id as an index: ids of models and graphs are ints, vectors are indexed by size_t.
#pragma once

#include <cstddef>

namespace kerf::partitioner {

inline size_t at(int index) { return static_cast<size_t>(index); }

}  // namespace kerf::partitioner
