// The memory of a part's locals while a step's micro-batches are in flight.
//
// A local has memory from its first use to its kFree: a buffer of its own, another local's, a view
// of the message it came in, or a slot of the message it will leave in (partitioner/part.h says
// which). Data are read from the data set at their first use.
//
// Used by the compute thread only; all references outlive it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "partitioner/part.h"
#include "schedmp/dataset.h"
#include "schedmp/training/mailbox.h"
#include "schedmp/training/parameters.h"

namespace kerf::schedmp {

// What one step works on.
struct StepData {
  const Dataset* dataset = nullptr;  // null where this worker reads none
  std::span<const int64_t> rows;     // of the data set, in order
  int64_t sequence = 0;              // part of every message's tag
  int64_t step = 0;
  bool training = true;
};

class Locals {
 public:
  Locals(const partitioner::Model& model, const partitioner::Part& part, runtime::Device& device,
         Parameters& parameters, Mailbox& mailbox);

  // Micro-batches of this step from now on; everything must have been freed.
  void begin(const StepData& data, int micro_batches);
  int64_t first(int micro_batch) const { return at(micro_batch).first; }  // row of the step
  int64_t samples(int micro_batch) const { return at(micro_batch).samples; }

  // The memory of a local, made if there is none yet. Blocks where it is a slot.
  ops::TensorView ensure(int local, int micro_batch);
  // The memory of a local; data null if it has none now.
  ops::TensorView look(int local, int micro_batch) const;
  // Reads `message` in place until the local is freed.
  void place(int local, int micro_batch, const runtime::View& message);
  // The slot that the local was made in, to be committed: the local is no longer written to.
  runtime::Slot hand_over(int local, int micro_batch);
  void free(int local, int micro_batch);
  void free_all(int micro_batch);

 private:
  struct Cell {
    bool live = false;
    ops::TensorView view;
    runtime::Buffer buffer;
    std::optional<runtime::View> message;
    std::optional<runtime::Slot> slot;
  };
  struct MicroBatch {
    int64_t first = 0;
    int64_t samples = 0;
    std::vector<Cell> cells;  // by local
  };

  const partitioner::Local& local(int index) const {
    return part_.locals[static_cast<size_t>(index)];
  }
  const MicroBatch& at(int index) const { return micro_batches_[static_cast<size_t>(index)]; }
  Cell& cell(int local, int micro_batch) {
    return micro_batches_[static_cast<size_t>(micro_batch)].cells[static_cast<size_t>(local)];
  }
  // Of that shape, without data.
  ops::TensorView shape_of(int local, int micro_batch) const;
  void read_data(int local, int micro_batch, const ops::TensorView& to);

  const partitioner::Model& model_;
  const partitioner::Part& part_;
  runtime::Device& device_;
  Parameters& parameters_;
  Mailbox& mailbox_;
  StepData data_;
  std::vector<MicroBatch> micro_batches_;
};

}  // namespace kerf::schedmp
