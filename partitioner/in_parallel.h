// Independent pieces of planning, on as many threads as there are processors.
#pragma once

#include <cstddef>
#include <functional>

namespace kerf::partitioner {

// work(i) for each i below `count`, from the first on, at once on several threads; `told`, if it is
// any, before each that the caller's own thread does, and on that. Work may call this in its turn:
// then threads help that have nothing else to do. Throws what the lowest i threw, once all threads
// are done; others may not have been begun then.
void in_parallel(size_t count, const std::function<void(size_t)>& work,
                 const std::function<void(size_t)>& told = {});

}  // namespace kerf::partitioner
