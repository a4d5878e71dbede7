// Rows of workers: who has which stage. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

namespace kerf::partitioner {

using WorkerRow = std::vector<int>;  // stage -> worker

// The row with each worker that is not in it, anywhere between its stages; `parts`: or between two
// of the same worker that a stage of it becomes. At most so many.
std::vector<WorkerRow> rows_with_the_others(const WorkerRow& row, int workers, size_t most,
                                            bool parts);

// Rows with so many stages on each worker, in whatever order: the first `most` of them.
std::vector<WorkerRow> rows_in_any_order(int workers, int stages_per_worker, size_t most);

}  // namespace kerf::partitioner
