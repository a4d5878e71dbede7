// What Training does on a worker: rebuilds model, plan and part from its job, and runs steps.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/resident_memory.h"
#include "schedmp/training/executor.h"
#include "schedmp/training/loading_ahead.h"
#include "schedmp/training/training.h"

namespace kerf::schedmp {

class TrainingWorker {
 public:
  // Throws Error{kUsage} that names what this worker cannot rebuild alike.
  TrainingWorker(const TrainingFactories& factories, runtime::Workplace& workplace,
                 const TrainingJob& job);

  // The result is this worker's own, until the next task.
  const TrainingResult& update(const TrainingTask& task);
  Executor& executor() { return *executor_; }

 private:
  // All but slots, and what it proved to take on the host.
  void cap_memory(int64_t on_host);
  void open_data(const TrainingFactories& factories);
  // Before a step that reads it, so that loading is not taken for computing. Of null, nothing.
  void prepare(const Dataset* data);
  // Reads this split's rows beforehand from now on, where that is worth a thread.
  std::shared_ptr<LoadingAhead> load_ahead(std::shared_ptr<const Dataset>& data) const;
  // Row numbers of the task's rows, in the order of its epoch.
  std::span<const int64_t> rows_of(const TrainingTask& task);
  // And, most probably, of the next task's.
  void expect_rows(const TrainingTask& task, std::span<const int64_t> rows);

  void measure_memory(const TrainingTask& task, TrainingResult& result) const;

  const runtime::ResidentMemory start_ = runtime::resident_memory_at_start();
  runtime::Workplace& workplace_;
  TrainingJob job_;
  partitioner::Model model_;
  partitioner::Plan plan_;
  Schedule training_;
  std::vector<std::string> inputs_;  // of the model, where this worker reads any
  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const Dataset> test_;
  std::shared_ptr<LoadingAhead> train_ahead_;  // is train_, or null
  std::shared_ptr<LoadingAhead> test_ahead_;
  std::vector<int64_t> order_;  // of the training rows in `epoch_`
  int64_t epoch_ = -1;
  std::vector<int64_t> rows_;  // scratch: rows of an evaluation
  const TrainingResult nothing_;
  std::unique_ptr<Executor> executor_;  // the last: what it has under way reads the others
};

}  // namespace kerf::schedmp
