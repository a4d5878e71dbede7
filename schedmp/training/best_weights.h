// With patience, the weights of the lowest loss so far lie as shares in a folder of the run's
// (shards.h), which ends with it. Checkpoints have them, too, for a run that goes on.
#pragma once

#include <filesystem>
#include <vector>

#include "partitioner/plan.h"
#include "schedmp/training/stored_slices.h"

namespace kerf::schedmp {

// Of those parts' shares, where they are there, each box once.
void add_best_weights(const partitioner::Model& model, const partitioner::Plan& plan,
                      runtime::Store& store, const std::filesystem::path& shards,
                      const std::vector<int>& parts, std::vector<StoredSlice>& to);

// Those parts' shares anew.
void write_best_weights(StoredSlices& from, const partitioner::Model& model,
                        const partitioner::Plan& plan, const std::vector<int>& parts,
                        runtime::Store& store, const std::filesystem::path& shards);

}  // namespace kerf::schedmp
