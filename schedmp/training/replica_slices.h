// What checkpoints have of replicas whose weights lie in tables, and of L-BFGS, beside what every
// training has (stored_slices.h). Kinds:
//
//   weights, state-0 ...     as tables have them, which are one for all replicas; of L-BFGS the
//                            point that its last iteration came to
//   updates                  gradients that a tensor of a table has had
//   unheard                  what other server groups have yet to hear of
//   group-1/weights ...      the same four of other server groups
//   replica-0/weights ...    what a replica has as its own, with states of its own optimizer
//   replica-0/base           as it was fetched, of what grows (shared_weights.h)
//   replica-0/accrued        gradients that it has yet to push, of so many steps:
//   replica-0/accrued-steps
//   vector-3 ...             L-BFGS's, by number (lbfgs_vectors.h), which are one, too
//
// Where a replica's weights are those of the tables, as they are behind every fetch, there are none
// of its own. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "schedmp/tables/tables.h"
#include "schedmp/training/number_slices.h"
#include "schedmp/training/parameters.h"
#include "schedmp/training/replicas.h"
#include "schedmp/training/stored_slices.h"

namespace kerf::schedmp {

inline constexpr const char* kUpdates = "updates";
inline constexpr const char* kUnheard = "unheard";
inline constexpr const char* kBaseOfGrowth = "base";
inline constexpr const char* kAccruedGradients = "accrued";
inline constexpr const char* kAccruedSteps = "accrued-steps";
std::string kind_of_replica(int replica, const std::string& kind);
std::string kind_of_group(int group, const std::string& kind);
std::string kind_of_vector(int32_t vector);

// A shared tensor of a part, as what slices of it are of.
ElementsOf elements_of(const partitioner::Model& model, const partitioner::Part& part,
                       const SharedTensor& tensor, int64_t first = 0);
// What a worker serves of a tensor, by its table of whole blocks of rows: elements of the tensor
// from `first` on, and where they and their rows are among what it serves. Nothing: no elements.
struct ServedElements {
  int64_t first = 0;
  int64_t begin = 0;
  int64_t count = 0;
  ops::Range rows;
};
ServedElements served_of(const TableSpec& table, int worker, const SharedTensor& tensor);

// Of the tensors of a worker with these parts, as Parameters has them for this reach, what goes
// into the file: as the replica's `own`, or only what no table has.
std::vector<StoredSlice> slices_of_replica(const partitioner::Model& model,
                                           const std::vector<const partitioner::Part*>& parts,
                                           int replica, Reach reach, bool own,
                                           const std::vector<StoredSlice>& tensors);
// What these are read as, back: the replica's own where it has any, else its server group's.
Parameters::KindOf kinds_of_replica(const StoredSlices& from, int replica, int group);

}  // namespace kerf::schedmp
