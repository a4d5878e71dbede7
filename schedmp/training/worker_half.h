// What Training does on a worker: rebuilds model, plan and part from its job, and runs steps.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/resident_memory.h"
#include "schedmp/training/executor.h"
#include "schedmp/training/lbfgs_weights.h"
#include "schedmp/training/loading_ahead.h"
#include "schedmp/training/result_shares.h"
#include "schedmp/training/row_order.h"
#include "schedmp/training/shared_weights.h"
#include "schedmp/training/training.h"

namespace kerf::schedmp {

class TrainingWorker {
 public:
  // Throws Error{kUsage} that names what this worker cannot rebuild alike.
  // `tables`: of weights that replicas share; outlive this.
  TrainingWorker(const TrainingFactories& factories, runtime::Workplace& workplace,
                 const TrainingJob& job, Tables& tables);

  TrainingResult update(const TrainingTask& task);
  Executor& executor() { return *executor_; }

  // For snapshots, as DividedState.
  void save_state(PieceWriter& to, Reach reach);
  void load_state(const std::vector<PlacedPart>& parts, const Alive& alive);

 private:
  // All but slots, and what it proved to take on the host.
  void cap_memory(int64_t on_host);
  // For what takes long, and gets on.
  Alive alive() const {
    return [&activity = workplace_.activity] { activity.progress(); };
  }
  int replica() const { return job_.first_worker / plan_.workers_bound(); }
  void share_weights();
  std::vector<StoredSlice> slices(Reach reach);
  void save() const;
  // Results are this worker's own, until the next task, and without spans: those leave with the
  // copy that is given, and nothing of them stays.
  const TrainingResult& result_of(const TrainingTask& task);
  TrainingResult& run_step(const TrainingTask& task);
  // What L-BFGS asks for beside portions. Places come before a step without rows, by which copies
  // of weights at other parts follow.
  const TrainingResult& work_on_vectors(const TrainingTask& task);
  void open_data(const TrainingFactories& factories);
  // Before a step that reads it, so that loading is not taken for computing. Of null, nothing.
  void prepare(const Dataset* data);
  // Reads this split's rows beforehand from now on, where that is worth a thread.
  std::shared_ptr<LoadingAhead> load_ahead(std::shared_ptr<const Dataset>& data) const;
  // Numbers of rows, in the order of their epoch, in `numbers`.
  std::span<const int64_t> numbers_of(const TaskRows& rows, std::vector<int64_t>& numbers);
  // The task's rows, and behind them the next task's, be it of another epoch or of the tests.
  void expect_rows(const TrainingTask& task, std::span<const int64_t> rows,
                   std::span<const int64_t> next);

  void measure_memory(const TrainingTask& task, TrainingResult& result) const;

  const runtime::ResidentMemory start_ = runtime::resident_memory_at_start();
  runtime::Workplace workplace_;
  TrainingJob job_;
  Tables& tables_;
  ResultWriter results_;
  partitioner::Model model_;
  partitioner::Plan plan_;
  Schedule training_;
  std::vector<std::string> inputs_;  // of the model, where this worker reads any
  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const Dataset> test_;
  std::shared_ptr<LoadingAhead> train_ahead_;  // is train_, or null
  std::shared_ptr<LoadingAhead> test_ahead_;
  struct Order {
    int64_t epoch = -1;
    std::optional<RowOrder> rows = {};
  };
  Order orders_[2];            // of the training rows, in this epoch and the next
  std::vector<int64_t> rows_;  // scratch
  std::vector<int64_t> next_rows_;
  bool leaves_much_ = true;  // what the last step allocated is freed, in pieces among what stays
  TrainingResult other_result_;            // of what runs no row of the schedule
  std::unique_ptr<SharedWeights> shared_;  // null: it is the only replica
  std::unique_ptr<LbfgsWeights> lbfgs_;    // null: another optimizer
  std::unique_ptr<Executor> executor_;     // the last: what it has under way reads the others
};

}  // namespace kerf::schedmp
