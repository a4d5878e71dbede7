// How much a worker keeps for a restart, in each of two files of memory on the scheduler's host
// (schedmp/worker_tasks.h): the tensors of what Reach::kAlone has, without the file's header. Pure
// functions.
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/part.h"
#include "schedmp/tables/table_spec.h"
#include "schedmp/training/replicas.h"

namespace kerf::schedmp {

inline constexpr int64_t kKeptFiles = 2;  // of each worker, written in turn

// Of a part: weights, copies of them that its calls read, and so many states of what is trained.
int64_t kept_bytes(const partitioner::Model& model, const partitioner::Part& part, int states);
// Of each worker of a plan.
std::vector<int64_t> kept_bytes(const partitioner::Model& model,
                                const std::vector<partitioner::Part>& parts, int workers,
                                int states);

// Beside that of a part of a replica whose weights are in this table: what the worker serves of it,
// and has of it as its own. Counts go with the tensors.
int64_t kept_of_table(const partitioner::Part& part, const TableSpec& table, int worker,
                      const ReplicaOptions& replicas);
// The same of L-BFGS, by the table of its point: once there are all pairs.
int64_t kept_of_vectors(const partitioner::Part& part, const TableSpec& point, int worker,
                        int history);

}  // namespace kerf::schedmp
