// Training is a program: schedule() sends each worker one step, update() runs the worker's row of
// the schedule for it, aggregate() takes down what the step vector says, or adds an evaluation up.
//
// A worker's half is made from the factories alone, and learns the rest from its job. A worker that
// cannot rebuild the same model, plan or data set ends the run with an error that names the
// difference.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/optimizer.h"
#include "partitioner/part.h"
#include "schedmp/checkpoint_folder.h"
#include "schedmp/dataset.h"
#include "schedmp/program.h"
#include "schedmp/training/lbfgs.h"
#include "schedmp/training/learning_rate.h"
#include "schedmp/training/messages.h"
#include "schedmp/training/replicas.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

// How a worker rebuilds the model: `source` is any text that the factory understands, "lenet5" or
// "mlp 784-512-10".
using ModelFactory = std::function<partitioner::Model(const std::string& source)>;

struct TrainingFactories {
  ModelFactory model;
  DatasetFactory dataset;
};

struct TrainingOptions {
  std::string model_source;
  std::string dataset;
  int64_t batch = 128;
  int epochs = 1;
  int64_t steps = -1;    // stop after this many; -1: epochs decide
  bool evaluate = true;  // test accuracy after the last step (and after each epoch)
  bool shuffle = true;
  uint64_t seed = 1;
  ops::OptimizerOptions optimizer;
  RateSchedule rates;  // of the optimizer's learning rate
  // End after so many evaluations in a row without a lower loss, and keep the weights of the
  // lowest; 0: all steps, and the last weights.
  int patience = 0;
  partitioner::Setting setting;   // its optimizer_states follow from `optimizer`
  std::optional<int64_t> memory;  // bytes that each worker may take
  int64_t trace_steps = 16;       // steps whose spans are kept
  int most_skipped = 10;          // as many steps in a row that are not finite end the run
  std::filesystem::path
      shards;           // folder where workers leave their shares of the weights; empty: none
  std::string weights;  // safetensors file to start from; empty: initialise
  // Of a model without a loss, which only evaluates: folder where workers leave their shares of its
  // results.
  std::filesystem::path results = {};
  // Several plans at once, each with `batch` rows of a step: a step is that of all.
  ReplicaOptions replicas = {};
  // Steps, behind which a pipeline that goes on drains, so that a snapshot can be taken; 0: as many
  // as cost a hundredth (steps.h). Nothing to schedules that drain anyway.
  int64_t drain_every = 0;
  // By L-BFGS instead of the optimizer (lbfgs_training.h). Replicas are synchronous then.
  std::optional<LbfgsOptions> lbfgs = {};
};

// What one step, or iteration of L-BFGS, or evaluation came to.
struct StepRecord {
  int64_t step = 0;  // of training, from 0
  int64_t epoch = 0;
  int64_t rows = 0;
  double loss = 0;  // mean over the rows
  int64_t correct = 0;
  double gradient_norm = 0;  // of all parameters' together
  // What was not finite first, "the gradient of fc1.weight": then nothing was updated, or within
  // the step nothing behind it. Empty: all was.
  std::string skipped = {};
  double learning_rate = 0;
  int64_t end_ns = 0;     // when the first worker was done with it, on its own clock
  int64_t staleness = 0;  // clocks that weights lacked at most, which replicas fetched in it
  int left_out = 0;       // replicas that were not finite, where others were: not in the figures

  template <class Archive>
  void serialize(Archive& archive) {
    archive(step, epoch, rows, loss, correct, gradient_norm, skipped, learning_rate, end_ns,
            staleness, left_out);
  }
};
struct EvaluationRecord {
  int64_t after_epoch = 0;
  int64_t rows = 0;
  int64_t correct = 0;
  double loss = 0;  // of weights that training spoilt, no finite number
  int64_t labels_per_row = 1;
  // Answers among the kTop largest scores, where there are more classes than that and the classes
  // are not divided.
  std::optional<int64_t> in_top = std::nullopt;
  bool kept = false;       // its weights are those that the run leaves
  bool of_classes = true;  // answers are right or wrong; else they are near to numbers, or far
  int64_t end_ns = 0;      // as of a step, of its last batch
  int label_axes = 0;      // of a row's labels: 0 of one, 1 of a text's, 2 of an image's

  int64_t labels() const { return rows * labels_per_row; }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(after_epoch, rows, correct, loss, labels_per_row, in_top, kept, of_classes, end_ns,
            label_axes);
  }
  double share(int64_t of_labels) const {
    return rows == 0 ? 0 : static_cast<double>(of_labels) / static_cast<double>(labels());
  }
  double accuracy() const { return share(correct); }
};

struct WorkerFigures {
  int worker = 0;
  double compute_seconds = 0;
  double wait_seconds = 0;
  int64_t messages = 0;  // sent to other workers
  int64_t bytes_out = 0;
  int64_t bytes_in = 0;
  int64_t local_messages = 0;  // from a part of this worker to another: no transport carries them
  int64_t local_bytes = 0;
  int64_t proved_bytes = 0;  // of device memory and slots, before anything ran
  int64_t table_bytes = 0;   // beside that: of weights that replicas share, of L-BFGS's vectors
  int64_t kept_bytes = 0;    // for a restart, in each of two files elsewhere (kept_bytes.h)
  int64_t peak_bytes = 0;    // measured: equal
  int64_t kernel_bytes = 0;  // beside it, of GPUs: what kernels hold
  // Of physical memory, more than when it began, and without rows of data; and those. Only the
  // worker's own where it is the only one of its process. -1: unknown.
  int64_t resident_bytes = -1;
  int64_t data_bytes = 0;
};

// When a worker began a batch, and when its part of the answers was there: on its own clock.
struct WorkerTime {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

struct RouteFigures {
  int64_t predicted_messages = 0;
  int64_t predicted_bytes = 0;
  int64_t messages = 0;  // counted by the sender
  int64_t bytes = 0;
};

// Of Training::told().
inline constexpr const char* kToldModel = "model";          // its source
inline constexpr const char* kToldNumbering = "numbering";  // of the training rows, as a text

// Told about progress as it happens, on the scheduler's thread. All optional.
struct TrainingObserver {
  std::function<void(const StepRecord&)> step;
  std::function<void(const EvaluationRecord&)> evaluation;
  // Of a step, behind `step`: what its actions took each worker, less what they waited.
  std::function<void(const StepRecord&, std::span<const int64_t> compute_ns)> computed = {};
};

struct TrainingMessages {
  using Job = TrainingJob;
  using Task = TrainingTask;
  using Result = TrainingResult;
};

// The scheduler's half.
class Training : public SchedulerHalf<TrainingMessages> {
 public:
  // Verifies the schedule for this plan with options.setting: throws Error{kUsage} with the
  // verdict's problems, Error{kInfeasible} where a worker would take more than options.memory.
  // `data`: what the run reads of options.dataset, where that is open and was checked; else it is
  // opened here.
  Training(const TrainingFactories& factories, const partitioner::Model& model,
           const partitioner::Plan& plan, const Schedule& schedule, TrainingOptions options,
           TrainingObserver observer = {}, std::optional<OpenSplits> data = std::nullopt);
  ~Training() override;

  std::string name() const override { return "training"; }
  TrainingJob job(int worker) override;
  LaneTable lanes(int workers) const override;
  std::vector<TableSpec> tables(int workers) override;
  // Proves the memory of slots anew: throws Error{kInfeasible} as the constructor.
  void channels_go_over(const TransportTable& transports) override;
  std::vector<std::filesystem::path> folders() const override;
  int depth() const override;
  Decision schedule(int64_t round) override;
  void aggregate(int64_t round, std::vector<Result> results) override;
  // By the bits of what a step came to, where the run is one that repeats its own.
  void compare(int64_t round, const Result& first, const Result& again) override;
  // Snapshots have where the run is and what has come of it, not what its workers measured.
  bool keeps_state() const override { return true; }
  bool rests_before(int64_t round) const override;
  bool goes_on_anywhere() const override { return true; }
  int64_t progress(int64_t next_round) const override;  // steps
  std::string snapshot() override;
  void restore(std::string_view snapshot) override;
  int count_workers() const;  // of all replicas

  // After the run, on the scheduler.
  const std::vector<StepRecord>& steps() const;
  const std::vector<EvaluationRecord>& evaluations() const;
  // Of each batch of evaluations, each worker's in turn; and from when the first was handed out to
  // when the last result came in.
  const std::vector<std::vector<WorkerTime>>& evaluation_times() const;
  double seconds_between() const;
  const std::vector<WorkerFigures>& workers() const;
  const std::vector<RouteFigures>& routes() const;
  // Of tasks that were done again behind the loss of a worker: what their workers sent for them.
  const partitioner::Traffic& repeated() const;
  // Of the training rows, where the run leaves weights.
  const Numbering& numbering() const;
  int64_t labels_per_row() const;
  int label_axes() const;
  int64_t total_steps() const;    // that this run will make at most
  int64_t resumed_steps() const;  // that it had made before it went on from a snapshot
  // By flag, what a run that goes on from a snapshot has in common with the one that took it: all
  // that decides what is learnt, but for the plan, which may be another.
  RunTold told() const;
  const Verdict& verdict() const;
  // Behind how many steps its pipeline drains at the latest; 0: behind each.
  int64_t drain_period() const;
  // Each worker's spans, on its own clock: of the steps that were traced so far.
  const std::vector<std::vector<runtime::Span>>& spans() const;
  std::vector<std::vector<runtime::Span>> take_spans();

 protected:
  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// The workers' half, for ProgramFactories.
std::unique_ptr<runtime::Handler> training_worker(const TrainingFactories& factories);

// Joins the shares that workers left of a result, and calls `rows` with whole rows, batch after
// batch, in order. Throws Error{kUnavailable} naming what is missing.
void join_result(const partitioner::Model& model, const partitioner::Plan& plan,
                 const partitioner::Result& result, const std::filesystem::path& results,
                 const std::function<void(std::span<const std::byte> rows)>& rows);

// Joins the shares that workers left in `shards` into one safetensors file of whole tensors, which
// is there once it is committed. It says by which numbering they were trained, if any. The folder
// stays with its owner: what killed workers had begun lies there, too. Throws Error{kUnavailable}
// naming what is missing.
class SafetensorsWriter;
std::unique_ptr<SafetensorsWriter> joined_weights(const partitioner::Model& model,
                                                  const partitioner::Plan& plan,
                                                  const std::filesystem::path& shards,
                                                  const std::filesystem::path& file,
                                                  const Numbering& numbering = {});
// The same, committed.
void join_weights(const partitioner::Model& model, const partitioner::Plan& plan,
                  const std::filesystem::path& shards, const std::filesystem::path& file,
                  const Numbering& numbering = {});
// The same of a checkpoint; with patience, of its best weights.
class StoredSlices;
void export_weights(const partitioner::Model& model, StoredSlices& from,
                    const std::filesystem::path& file, const Numbering& numbering = {});

}  // namespace kerf::schedmp
