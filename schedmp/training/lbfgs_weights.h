// A worker's part of full-batch L-BFGS (lbfgs.h): the gradients of the portions of rows that it
// computed, added up, and its piece of every vector.
//
// Where the model is and its gradient there lie in two synchronous tables for each part of the plan
// (schedmp/tables). The part's workers in all replicas serve each as many of their rows, and those
// are a worker's piece of all vectors:
//
//   place()    its piece of the point goes into the table, all of the point comes out: the weights
//   update()   adds a portion's gradient to the sum; weights stay as they are
//   collect()  the sum goes into the table, where all sums are added up; its piece comes out
//   run()      operations on its pieces
//
// Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012, section 4.2 (Sandblaster). Used
// by the compute thread only.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ops/workbench.h"
#include "schedmp/tables/tables.h"
#include "schedmp/training/lbfgs_vectors.h"
#include "schedmp/training/parameters.h"
#include "schedmp/training/part_rows.h"
#include "schedmp/training/replica_slices.h"
#include "schedmp/training/replicas.h"
#include "schedmp/training/weight_updates.h"

namespace kerf::schedmp {

// By part, the table of its point; that of its gradient is alike. Worker w of replica r is r times
// the workers of a replica, and w. Throws Error{kUsage} as check_apart(), and where a part has
// running statistics: these follow steps.
std::vector<std::pair<int, TableSpec>> point_tables(const partitioner::Model& model,
                                                    const std::vector<partitioner::Part>& parts,
                                                    int workers, int replicas);
// What a worker holds for such a part, its share of both tables included.
int64_t lbfgs_bytes(const TableSpec& point, int worker, int history);

class LbfgsWeights final : public WeightUpdates {
 public:
  // Of these parts of the worker. `table_of_part`: of points, by the parts' numbers in the plan;
  // those of gradients are the next. The point is where the weights are. All references outlive
  // this.
  LbfgsWeights(const partitioner::Model& model, const std::vector<const partitioner::Part*>& parts,
               Parameters& parameters, ops::Workbench& bench, Tables& tables,
               const std::vector<std::pair<int, int>>& table_of_part, int history, int replica);

  // The next two give how long they waited for others, in ns.
  int64_t place();
  void update(size_t part, std::span<const Home> homes, const Step& step) override;
  // The gradient is the mean over so many rows.
  int64_t collect(int64_t rows);
  std::vector<double> run(const VectorWork& work) { return pieces_->run(work); }

  // For checkpoints (replica_slices.h), where L-BFGS is between two iterations (Lbfgs::rests()):
  // what a file of this worker's has. The weights follow from what is loaded with the next place().
  std::vector<StoredSlice> slices(Reach reach, const std::vector<ops::Layout>& layouts);
  void load(StoredSlices& from);

 private:
  struct Vectors {
    Table* point = nullptr;  // null: the part has no weights
    Table* gradient = nullptr;
    std::optional<PartRows> rows;
    std::vector<ops::Range> all;  // rows of a table, and those of them that are this worker's
    std::vector<ops::Range> own;
    std::vector<double> sum;         // of gradients times the rows that they are the mean over
    std::vector<float> point_piece;  // rows `own`
    std::vector<float> gradient_piece;
  };

  void begin(size_t part, Tables& tables, int table);
  int64_t place(Vectors& vectors);
  // Calls `act` with what is this worker's of each tensor, and its numbers in a vector.
  template <class Act>
  void for_each_piece(int32_t vector, const Act& act);

  const partitioner::Model& model_;
  const std::vector<const partitioner::Part*> parts_;
  Parameters& parameters_;
  ops::Workbench& bench_;
  const int replica_;
  std::vector<Vectors> vectors_;  // by part
  std::unique_ptr<VectorPieces> pieces_;
  std::vector<float> numbers_;  // scratch: of all rows of a table
};

}  // namespace kerf::schedmp
