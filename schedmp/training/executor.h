// The executor: runs a worker's row of a schedule on its part of a plan, micro-batch by
// micro-batch.
//
// It owns the worker's parameters, optimizer state and everything in flight, and is used by the
// compute thread only. Kernels see local dense tensors; tensors that were received are read where
// they lie in the channel's slot, tensors that are only made to be sent are made there.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/optimizer.h"
#include "partitioner/part.h"
#include "runtime/worker.h"
#include "schedmp/dataset.h"
#include "schedmp/schedule.h"
#include "schedmp/training/mailbox.h"
#include "schedmp/training/messages.h"

namespace kerf::schedmp {

// What one step works on.
struct StepData {
  const Dataset* dataset = nullptr;  // null where this worker reads none
  std::span<const int64_t> rows;     // of the data set, in order
  int64_t sequence = 0;              // part of every message's tag
  int64_t step = 0;
  bool training = true;
};

class Executor {
 public:
  Executor(const partitioner::Model& model, const partitioner::Plan& plan, partitioner::Part part,
           runtime::Workplace& workplace, const ops::OptimizerOptions& optimizer, uint64_t seed);
  ~Executor();

  // Runs the row. Fills everything of the result but spans.
  TrainingResult run(const std::vector<Action>& row, int micro_batches, const StepData& data);
  // Reads inputs or labels from the data set.
  bool reads_data() const;

  // This worker's shares of the parameters.
  void load(const std::filesystem::path& safetensors);
  void save(const std::filesystem::path& safetensors) const;

 private:
  // The memory of a local in one micro-batch.
  struct Cell {
    bool live = false;
    ops::TensorView view;
    runtime::Buffer buffer;
    std::optional<runtime::View> message;  // of a received local
    std::optional<runtime::Slot> slot;     // of a local that is made to be sent
  };
  struct MicroBatch {
    int64_t first = 0;
    int64_t samples = 0;
    std::vector<Cell> cells;             // by local
    std::vector<runtime::Buffer> saved;  // by call
  };

  const partitioner::Local& local(int index) const {
    return part_.locals[static_cast<size_t>(index)];
  }
  const partitioner::Route& route(int index) const {
    return plan_.routes[static_cast<size_t>(index)];
  }
  bool persistent(int index) const;
  int receiver_of(const partitioner::Route& route) const;
  int sender_of(const partitioner::Route& route) const;
  std::string name_of(const partitioner::Route& route, int micro_batch) const;
  runtime::Tag tag_of(int route, int micro_batch) const;

  void initialize(uint64_t seed);
  void begin(const StepData& data, int micro_batches);
  void run_action(const Action& action);
  void run_instruction(const partitioner::Instruction& instruction, const Action& action);
  void forward(const partitioner::LocalCall& call, int index, int micro_batch);
  void gradient(const partitioner::Instruction& instruction, int micro_batch);
  void send(const partitioner::Instruction& instruction, int micro_batch);
  void receive(const partitioner::Instruction& instruction, int micro_batch);
  void copy(const partitioner::Instruction& instruction, int micro_batch);
  void free_local(int index, int micro_batch);
  void update(const partitioner::Instruction& instruction);
  void note_loss(const partitioner::LocalCall& call, int micro_batch);

  // The memory of a local, made on first use.
  ops::TensorView ensure(int index, int micro_batch);
  // The memory of a local if it has any now; data null otherwise.
  ops::TensorView look(int index, int micro_batch);
  void read_data(int index, const ops::TensorView& to, const MicroBatch& micro_batch);
  ops::Call make_call(const partitioner::LocalCall& call, int index, int micro_batch);

  const partitioner::Model& model_;
  const partitioner::Plan& plan_;
  partitioner::Part part_;
  runtime::Workplace& workplace_;
  std::unique_ptr<ops::Optimizer> optimizer_;
  uint64_t seed_;
  Mailbox mailbox_;
  std::vector<int> lanes_;                             // by route
  std::vector<std::unique_ptr<ops::Kernel>> kernels_;  // by call
  std::vector<ops::Tensor> persistent_;                // by local
  std::vector<std::vector<ops::Tensor>> states_;       // by parameter local
  std::vector<RouteCount> sent_;                       // by route
  std::vector<MicroBatch> micro_batches_;
  std::vector<double> losses_;  // by micro-batch
  StepData data_;
  TrainingResult result_;

  // Scratch of make_call, kept so that running a call allocates nothing.
  std::vector<ops::TensorView> inputs_, outputs_, output_gradients_;
  std::vector<ops::GradientTarget> targets_;
};

}  // namespace kerf::schedmp
