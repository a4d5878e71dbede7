// The executor: runs a worker's row of a schedule on its part of a plan, micro-batch by
// micro-batch.
//
// It owns what the row works on (parameters.h, locals.h, mailbox.h) and is used by the compute
// thread only. Kernels see local dense tensors; tensors that were received are read where they lie
// in the channel's slot, tensors that are only made to be sent are made there.
#pragma once

#include <memory>
#include <vector>

#include "schedmp/schedule.h"
#include "schedmp/training/locals.h"

namespace kerf::schedmp {

class Executor {
 public:
  Executor(const partitioner::Model& model, const partitioner::Plan& plan, partitioner::Part part,
           runtime::Workplace& workplace, const ops::OptimizerOptions& optimizer, uint64_t seed);

  // Runs the row. Fills everything of the result but spans.
  TrainingResult run(const std::vector<Action>& row, int micro_batches, const StepData& data);
  // Reads inputs or labels from the data set.
  bool reads_data() const;
  bool reads_inputs() const;

  // This worker's shares.
  Parameters& parameters() { return parameters_; }

 private:
  bool persistent(int local) const { return part_.locals[static_cast<size_t>(local)].persistent(); }
  size_t bytes_of(int route, int micro_batch) const;

  void run_action(const Action& action);
  void run_instruction(const partitioner::Instruction& instruction, int micro_batch);
  void forward(int call, int micro_batch);
  void gradient(const partitioner::Instruction& instruction, int micro_batch);
  void send(const partitioner::Instruction& instruction, int micro_batch);
  void receive(const partitioner::Instruction& instruction, int micro_batch);
  void copy(const partitioner::Instruction& instruction, int micro_batch);
  // Drops what the gradients would have read: there will be none.
  void forget(int micro_batch);
  void note_loss(const partitioner::LocalCall& call, int micro_batch);
  runtime::Buffer& saved(int call, int micro_batch) {
    return saved_[static_cast<size_t>(micro_batch)][static_cast<size_t>(call)];
  }
  ops::Call make_call(int call, int micro_batch);

  const partitioner::Model& model_;
  const partitioner::Plan& plan_;
  const partitioner::Part part_;
  runtime::Workplace& workplace_;
  const uint64_t seed_;
  Parameters parameters_;
  Mailbox mailbox_;
  Locals locals_;
  std::vector<std::unique_ptr<ops::Kernel>> kernels_;  // by call
  std::vector<std::vector<runtime::Buffer>> saved_;    // by micro-batch, by call
  std::vector<double> losses_;                         // by micro-batch
  StepData data_;
  TrainingResult result_;

  // Scratch of make_call, kept so that running a call allocates nothing.
  std::vector<ops::TensorView> inputs_, outputs_, output_gradients_;
  std::vector<ops::GradientTarget> targets_;
};

}  // namespace kerf::schedmp
