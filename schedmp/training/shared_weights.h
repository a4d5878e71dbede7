// A worker's weights of a replica, as tables have them: pushes what a step came to, and fetches
// what all came to (replicas.h).
//
// Used by the compute thread only.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/workbench.h"
#include "runtime/worker.h"
#include "schedmp/tables/tables.h"
#include "schedmp/training/parameters.h"
#include "schedmp/training/part_rows.h"
#include "schedmp/training/replica_slices.h"
#include "schedmp/training/replicas.h"
#include "schedmp/training/weight_updates.h"

namespace kerf::schedmp {

class SharedWeights final : public WeightUpdates {
 public:
  // Of these parts of a worker of this replica; `tables` of the same numbers in the plan. Begins
  // the tables' own rows with the weights as they are. All references outlive this.
  SharedWeights(const partitioner::Model& model, const std::vector<const partitioner::Part*>& parts,
                Parameters& parameters, ops::Workbench& bench, Tables& tables,
                const std::vector<std::pair<int, int>>& table_of_part,
                const ops::OptimizerOptions& optimizer, const ReplicaOptions& replicas,
                int replica);

  void update(size_t part, std::span<const Home> homes, const Step& step) override;
  int64_t waited_ns() const override { return waited_ns_; }
  // How many clocks what was fetched lacked at most, since the last call.
  int64_t take_staleness();

  // For checkpoints (replica_slices.h): what a file of this worker's has. Both with tables that
  // stand still, in which all replicas have come to the same step.
  std::vector<StoredSlice> slices(Reach reach, const std::vector<ops::Layout>& layouts);
  void load(StoredSlices& from);

 private:
  struct Shared {
    Table* table = nullptr;
    std::optional<PartRows> rows;
    std::vector<char> decays;  // by tensor
    // Of what grows, from where: as it was fetched, or pushed since. Row by row.
    std::vector<float> base;
    std::vector<float> accrued;  // gradients that were not pushed yet
    int64_t accrued_steps = 0;
  };

  void step_alone(size_t part, std::span<const Home> homes, const Step& step);
  void push(Shared& shared, double rate);
  void push_gradients(Shared& shared, double rate);
  // What states, or all weights where replicas average, have grown by.
  void push_growth(Shared& shared);
  void fetch(Shared& shared, bool settled);
  void read(Shared& shared, bool settled);  // into fetched_
  bool grows(const SharedTensor& tensor) const { return tensor.is_state || replicas_.averages(); }
  int group() const { return replica_ / (replicas_.count / replicas_.server_groups); }
  // Whether weights that all replicas have fetched are theirs alone soon after.
  bool has_own() const { return replicas_.pushes_every() > 1 || replicas_.steps_alone(); }
  void add_own(size_t part, Reach reach, std::vector<StoredSlice>& to);
  void add_served(size_t part, Reach reach, std::vector<StoredSlice>& to);
  void load_own(size_t part, StoredSlices& from);
  void load_served(size_t part, StoredSlices& from);

  const partitioner::Model& model_;
  const std::vector<const partitioner::Part*> parts_;
  Parameters& parameters_;
  ops::Workbench& bench_;
  const ops::Optimizer optimizer_;
  const ReplicaOptions replicas_;
  const int replica_;
  std::vector<Shared> shared_;  // by part
  std::vector<float> fetched_;  // scratch, and the next
  std::vector<float> scratch_;
  int64_t waited_ns_ = 0;
  int64_t staleness_ = 0;
};

}  // namespace kerf::schedmp
