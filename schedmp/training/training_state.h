// What the scheduler's half of a training holds: the run as it was asked for, and what has come of
// it so far. Training's own, and of what derives from it; used by the loop's thread.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedmp/training/proof.h"
#include "schedmp/training/rounds.h"
#include "schedmp/training/training.h"

namespace kerf::schedmp {

struct Training::State {
  State(const TrainingFactories& factories, const partitioner::Model& model_in,
        const partitioner::Plan& plan_in, const Schedule& schedule_in, TrainingOptions options_in,
        TrainingObserver observer_in, std::optional<OpenSplits> data);

  static int64_t rows_of(const Dataset* data) { return data == nullptr ? 0 : data->rows(); }
  static std::string fingerprint_of(const Dataset* data) {
    return data == nullptr ? "" : data->fingerprint();
  }
  int64_t labels_per_row() const;
  int label_axes() const;  // as the model has them

  // What each worker of these replicas may take, as proved.
  void note_proof(int replica, int end);
  // With tables; without, the proof does.
  void check_cap() const;
  int replica_of(int worker) const { return worker / plan.workers_bound(); }

  // Whether a task that is done again, by the same worker, comes to the same bits. So it does with
  // L-BFGS of several replicas, of which another run hands its portions out otherwise.
  bool repeats_bits() const {
    using Kind = Consistency::Kind;
    const Consistency& how = options.replicas.consistency;
    return options.replicas.count == 1 || how.kind == Kind::kSync || how.kind == Kind::kAverage ||
           (how.kind == Kind::kSsp && how.count == 0);
  }
  template <class Archive>
  void state(Archive& archive) {
    rounds.state(archive);
    archive(steps, evaluations);
  }
  // Behind that. Throws Error{kProtocol} where no run of these options has come to it.
  void check_restored();

  // What a round hands out, to each replica its part of it.
  std::vector<Task> tasks_of(const TrainingTask& task);
  // Its results, of all workers that had one.
  void fold(const TrainingTask& task, std::vector<Result> results);

  // What a worker says it did; and what it was to send.
  void count(const TrainingTask& task, int worker, TrainingResult& result);
  void predict_one(const TrainingTask& task);

  const partitioner::Model model;
  const partitioner::Plan plan;
  const Schedule schedule;
  const TrainingOptions options;
  const TrainingObserver observer;
  const OpenSplits splits;
  const Dataset* const train;
  const Dataset* const test;
  Numbering numbering;
  Rounds rounds;
  TrainingProof proof;
  // Of weights, where there are replicas; of points and gradients, where that is L-BFGS.
  std::vector<TableSpec> tables;
  std::vector<std::pair<int32_t, int32_t>> table_of_part;
  std::deque<TrainingTask> under_way;
  int64_t last_round = -1;  // that was scheduled
  Ramps last_ramps = {true, true};
  // Of evaluations: when the first batch was handed out, and when the last result came in.
  int64_t first_ns = -1;
  int64_t last_ns = 0;
  std::vector<std::vector<WorkerTime>> evaluation_times;
  std::map<std::pair<int64_t, bool>, std::vector<partitioner::Traffic>> predicted;
  std::vector<StepRecord> steps;
  int64_t resumed_steps = 0;
  std::vector<EvaluationRecord> evaluations;
  std::vector<WorkerFigures> workers;
  std::vector<RouteFigures> routes;
  partitioner::Traffic repeated;
  std::vector<std::vector<runtime::Span>> spans;

 private:
  static TrainingOptions checked(TrainingOptions options, const partitioner::Plan& plan,
                                 const Schedule& schedule);
  static void check_replicas(const TrainingOptions& options, const partitioner::Plan& plan);
  OpenSplits open(const TrainingFactories& factories) const;
  void share_weights();
  void share_vectors();
  void note_slots();  // of tables
  void note_kept_bytes();
  void predict(const TrainingTask& task);
  const std::vector<partitioner::Traffic>& traffic(int64_t rows, bool gradients);

  int64_t rows_of(const TrainingTask& task, const Result& result) const;  // its replica's
  int leave_out(const TrainingTask& task, std::vector<Result>& results) const;
  // Losses are means over a round's rows.
  TrainingResult sum_of(const TrainingTask& task, const std::vector<Result>& results) const;
  void tell_computed(const std::vector<Result>& results) const;
  void fold_step(const TrainingTask& task, const TrainingResult& result, int64_t end_ns);
  std::vector<int64_t> rows_of_step(const StepRecord& step) const;
  void check_skipped() const;
  void check_evaluated(const TrainingTask& task, const TrainingResult& sum) const;
  void fold_evaluation(const TrainingTask& task, const TrainingResult& sum, int64_t end_ns);
  bool counts_top() const;
  void note_kept();
};

}  // namespace kerf::schedmp
