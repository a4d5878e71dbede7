// The executor: runs a worker's row of a schedule on its parts of a plan, micro-batch by
// micro-batch.
//
// It is the Machine of a run: the interpreter (schedmp/interpreter.h) walks the lists, this carries
// out what they say. It owns what the row works on (an arena, parameters.h, mailbox.h), all of it
// taken when it is made: a steady step allocates nothing. Kernels see local dense tensors; tensors
// that were received are read where they lie in the channel's slot, tensors that are sent whole are
// made there. Used by the compute thread only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/kernel.h"
#include "partitioner/step_vector.h"
#include "schedmp/dataset.h"
#include "schedmp/interpreter.h"
#include "schedmp/training/error_places.h"
#include "schedmp/training/mailbox.h"
#include "schedmp/training/parameters.h"
#include "schedmp/training/step_trace.h"
#include "schedmp/training/trail.h"
#include "schedmp/training/weight_updates.h"
#include "schedmp/versions.h"

namespace kerf::schedmp {

// What one step works on. Outlives the executor, or a run() that returned: one that threw may have
// left work in the stream.
struct StepData {
  const Dataset* dataset = nullptr;  // null where this worker reads none
  std::span<const int64_t> rows;     // of the data set, in order
  std::span<const int64_t> next;     // of the next step, where it is begun in this one
  int64_t sequence = 0;              // part of every message's tag
  int64_t step = 0;
  bool training = true;
  double learning_rate = 0;  // where it trains
  Ramps ramps = {};          // where steps go on
  bool ends = false;         // what comes behind it is no step
};

// A worker's parts of a plan, lowered for one purpose, and its schedule. Parts of others may be
// among them; they are not looked at.
struct Work {
  std::vector<partitioner::Part> parts;
  Schedule schedule;
};

// A part's share of a result, of one micro-batch: dense, of the share's box.
struct GivenResult {
  partitioner::ValueId value = -1;
  int part = 0;
  int64_t first = 0;  // row of the run's
  int64_t rows = 0;
  ops::TensorView share;
};

class Executor final : private Machine {
 public:
  // `training` is absent where the run only evaluates. `credits`: slots of each route.
  Executor(const partitioner::Model& model, const partitioner::Plan& plan,
           std::optional<Work> training, Work evaluation, const std::vector<int32_t>& credits,
           runtime::Workplace& workplace, const ops::OptimizerOptions& optimizer, uint64_t seed);

  ~Executor() override;

  // Runs the row. Fills everything of the result but spans; it is the executor's own, until the
  // next call.
  TrainingResult& run(const StepData& data);
  // Reads inputs or labels from the data set.
  bool reads_data() const;
  bool reads_inputs() const;
  // Of a step of so many rows, the places of those whose inputs this worker reads, ascending.
  std::vector<size_t> places_read(int64_t rows) const;

  // This worker's shares, and the numbers of its parts.
  Parameters& parameters() { return parameters_; }
  std::vector<int> part_numbers() const;

  // Of random numbers of steps from now on, in place of the seed of initial weights.
  void draw_by(uint64_t seed) { seed_ = seed; }
  // From now on, who makes new weights in place of the optimizer; outlives this. Not for schedules
  // that update within a step.
  void update_by(WeightUpdates& updates) { updates_ = &updates; }
  // Lowered for training, where it trains; lists that no row runs are empty.
  const std::vector<const partitioner::Part*>& parts() const { return current_->parts; }
  ops::Workbench& bench() { return *bench_; }

  // What the last run gave of the model's results, on the host.
  const std::vector<GivenResult>& results() const { return given_; }

  // For tests: what run() reads of the device, the arena, and where the regions of a training step
  // lie in it.
  std::span<const double> report() const { return report_; }
  std::span<std::byte> arena() const { return {arena_.data(), arena_.bytes()}; }
  const ArenaPlan& arena_plan() const { return current_->arena; }
  const Interpreter& interpreter() const { return current_->interpreter; }

 private:
  // One purpose's parts, with what walks them.
  struct Purpose {
    Purpose(Work work, int worker, Machine& machine);
    struct Row {
      std::vector<ListRun> runs;
      std::vector<std::string> names;  // of their actions
    };
    Work work;
    Steps steps;
    ByRamps<Row> rows;                            // of this worker
    std::vector<const partitioner::Part*> parts;  // likewise
    ArenaPlan arena;
    Interpreter interpreter;
    std::vector<std::vector<int>> roots;  // by part, by local
    // Where updates stand within the step, by stage: of each micro-batch the run that takes its
    // gradients, and how many there are; and which weights its actions read.
    std::map<int, std::vector<const ListRun*>> takers;
    std::map<int, int> updates;
    std::map<int, StageWeights> weights;
  };

  void read(const Site& site, const Instruction& instruction) override;
  void forward(const Site& site, const Instruction& instruction) override;
  void report_loss(const Site& site, const Instruction& instruction) override;
  void write(const Site& site, const Instruction& instruction) override;
  void gradient(const Site& site, const Instruction& instruction,
                std::span<const char> accumulate) override;
  void acquire(const Site& site, const Instruction& instruction) override;
  void send(const Site& site, const Instruction& instruction) override;
  void retire(const Site& site, const Instruction& instruction) override;
  void receive(const Site& site, const Instruction& instruction) override;
  void release(const Site& site, const Instruction& instruction) override;
  void copy(const Site& site, const Instruction& instruction) override;
  void zero(const Site& site, int local) override;
  void measure(const Site& site, const Instruction& instruction) override;
  void conclude(const Site& site, const Instruction& instruction) override;
  void update(const Site& site, const Instruction& instruction) override;
  void update_state(const Site& site, const Instruction& instruction) override;
  // All updates of the part at once, when its first comes.
  void update_by_others(const Site& site, const Instruction& instruction);
  int64_t waited_for_updates();  // in this run
  void apply_statistics(const Site& site, const Instruction& instruction);

  template <class Name, class Act>
  void compute(const std::string& node, const Name& name, const Act& act);
  void run_list(size_t index);
  void begin_row();
  // How many updates behind the newest the run reads weights.
  int behind(const ListRun& run);
  // Of an update within the step: its pace, and what the weights were.
  void begin_update();
  // Whose gradients the update takes that runs: all, where a step has one.
  struct MicroBatches {
    int first = 0;
    int end = 0;
  };
  MicroBatches taken_now() const;
  // What the loss is the mean over, as the instruction reads it.
  int64_t rows_of_loss(const Site& site, const Instruction& instruction) const;
  // What the step says of itself, on its way to the host: of training, where a part of this worker
  // concludes it. Then, on the host.
  void copy_report();
  void report_step();
  void report_evaluation();
  // For what an evaluation gives of the model's results.
  void take_result_memory();
  // The entries of a step vector's local; null where the part has none.
  double* entries(size_t part, int local) const;
  // Whether the step changes anything, and how large its gradients are.
  ops::StepSays says(const Site& site) const;
  const partitioner::Part& part(const Site& site) const { return *current_->parts[site.part]; }
  const partitioner::Local& local(const Site& site, int index) const {
    return part(site).locals[static_cast<size_t>(index)];
  }
  std::byte* at(const Site& site, const partitioner::Place& place) const;
  std::span<std::byte> bytes_at(const Site& site, const partitioner::Place& place,
                                int64_t bytes) const;
  std::byte* scratch(const Site& site, const Instruction& instruction) const;
  std::byte* memory_of(const Site& site, int root) const;
  // data is null where the local has no contents while this list runs.
  ops::TensorView view(const Site& site, int local) const;
  void look(const Site& site, const std::vector<int>& locals, std::vector<ops::TensorView>& to);
  // For a gradient: of what its kernel does not read there is no data.
  void look_back(const Site& site, const Instruction& instruction);
  // With the memory that the call was granted.
  ops::Call make_call(const Site& site, const Instruction& instruction);
  ops::Kernel& kernel(const Site& site, const Instruction& instruction) {
    return *kernels_[site.part][static_cast<size_t>(instruction.call)];
  }
  const partitioner::LocalCall& call_of(const Site& site, const Instruction& instruction) const {
    return part(site).calls[static_cast<size_t>(instruction.call)];
  }
  // The rows of the site's step. Of its micro-batch: how many there are, and the first of them
  // within the step; 0 of the step itself.
  std::span<const int64_t> rows_of(const Site& site) const {
    return site.step > 0 ? data_.next : data_.rows;
  }
  int64_t samples(const Site& site) const;
  int64_t first(const Site& site) const;
  // Of what an update takes.
  int64_t rows_between(const Site& site, int micro_batch, int end) const;
  // Where the statistics lie that the site's micro-batch says; null where it is empty.
  std::optional<ops::TensorView> statistics(Site site, int local, int micro_batch) const;
  size_t message_bytes(int route, const Site& site) const;
  // Of a message of the step itself, the first.
  size_t message_place(const Site& site) const {
    return site.micro_batch < 0 ? 0 : current_->interpreter.place(site);
  }
  runtime::View& held(int route, const Site& site) {
    return held_[static_cast<size_t>(route)][message_place(site)];
  }
  runtime::Slot& slot(int route, const Site& site) {
    return slots_[static_cast<size_t>(route)][message_place(site)];
  }
  void read_rows(const Site& site, const Instruction& instruction, std::span<const int64_t> rows,
                 const ops::TensorView& to);

  const partitioner::Model& model_;
  const partitioner::Plan& plan_;
  runtime::Workplace& workplace_;
  const std::unique_ptr<ops::Workbench> bench_;
  Trail trail_;
  const ErrorPlaces error_places_;
  StepTrace step_trace_;
  std::string_view action_;  // whose list runs
  const Purpose::Row* row_ = nullptr;
  const ListRun* now_ = nullptr;
  int behind_ = 0;  // updates, that it reads weights
  uint64_t seed_;
  const int micro_batches_;
  const partitioner::MicroBatchSizes sizes_;
  const double loss_terms_;  // per sample: labels that the loss is the mean over
  const partitioner::StepVector step_vector_;
  std::unique_ptr<Purpose> training_;
  std::unique_ptr<Purpose> evaluation_;
  Purpose* current_;
  Parameters parameters_;
  Mailbox mailbox_;
  runtime::Buffer arena_;
  std::vector<std::vector<std::unique_ptr<ops::Kernel>>> kernels_;  // by part, by call
  std::vector<std::vector<ops::BackwardReads>> reads_;              // likewise
  std::vector<std::vector<runtime::Slot>> slots_;                   // by route, by place
  std::vector<std::vector<runtime::View>> held_;                    // likewise
  // What the host looks at when a step is over: of training what the step vector came to, of an
  // evaluation the loss of each micro-batch, right answers, and those among the kTop largest.
  std::span<double> report_;
  runtime::PinnedMemory report_memory_;

  WeightUpdates* updates_ = nullptr;
  int64_t waited_for_updates_ns_ = 0;
  std::vector<WeightUpdates::Home> homes_;  // scratch
  StepData data_;
  TrainingResult result_;
  runtime::PinnedMemory given_memory_;
  size_t given_bytes_ = 0;
  std::vector<std::vector<std::vector<size_t>>> given_places_;  // by part, local, micro-batch
  std::vector<GivenResult> given_;

  // Scratch of single instructions, kept so that running one allocates nothing.
  std::vector<ops::TensorView> inputs_, outputs_, output_gradients_;
  std::vector<ops::GradientTarget> targets_;
};

}  // namespace kerf::schedmp
