// One run of the training program, of either kind, for train, eval and infer: what is asked of the
// library, the run itself, and what came out.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/kerf/planned.h"
#include "apps/kerf/restart_memory.h"
#include "apps/main/drive.h"
#include "apps/report/run_record.h"
#include "runtime/trace.h"
#include "schedmp/training/training.h"

namespace kerf::apps {

// Training goes through forward, backward and update; an evaluation goes forward only: it has no
// steps, no optimizer, and a schedule without gradients.
enum class RunKind : uint8_t { kTrain, kEvaluate };
std::string_view to_string(RunKind kind);  // as a record has it

struct Outcome {
  RunKind kind = RunKind::kTrain;
  std::string data;                             // the data set's name
  std::string optimizer;                        // and its numbers
  std::unique_ptr<schedmp::Training> training;  // its records
  Driven driven;
  double rows_per_second = 0;      // of training, start-up and tests left out; 0: unknown
  double median_step_seconds = 0;  // likewise
  bool same_bits = true;  // as of every synchronous schedule of one replica whose W goes up
  schedmp::ReplicaOptions replicas;
  bool data_encrypted = false;  // between workers, over tcp
  std::vector<int> staleness;   // by stage, where updates stand within the step; else empty
  std::optional<RestartMemory> kept = std::nullopt;  // of a training that may begin again
  std::vector<RunRecord::Slow> slow = {};            // where they are named
};

// What a run of that kind asks, as far as plan and flags say.
schedmp::TrainingOptions options_of(RunKind kind, const Planned& planned);

// Opens what such a run reads of options.dataset, a complete name; throws Error{kUsage} unless it
// fits the model. Where options.weights do not say by which words or classes they were trained, and
// the data set numbers its own, tells so on the standard error output.
schedmp::OpenSplits open_data(RunKind kind, const Planned& planned,
                              const schedmp::TrainingOptions& options);

// By what a run keeps snapshots, once its halves are made; its `run` is filled in.
using SnapshotsOf = std::function<schedmp::SnapshotOptions(const schedmp::Training& training)>;

// Who looks at a training while it runs.
struct Watch {
  // Of each step; see schedmp::TrainingObserver.
  std::function<void(const schedmp::Training& training, const schedmp::StepRecord& step,
                     std::span<const int64_t> compute_ns)>
      computed = {};
  std::function<bool()> leaves = {};  // see schedmp::LoopOptions
  // See CrewNeeds.
  std::function<void(const std::vector<runtime::WorkerInfo>& workers, double waited_seconds)>
      are_here = {};
  bool names_slow = false;  // people are told of workers that become slow (slow_workers.h)
};

// `data`: of options.dataset. Throws what ended the run. Workers are gone when it returns or
// throws. `how` progress is told; what it counts is filled in.
Outcome run_training(RunKind kind, const Planned& planned, const schedmp::Schedule& schedule,
                     const schedmp::TrainingOptions& options, const schedmp::OpenSplits& data,
                     const CrewFlags& flags, Progress::Options how = progress_on_stderr(),
                     const SnapshotsOf& snapshots_of = {}, const Watch& watch = {});

RunRecord record_of(const Planned& planned, const Outcome& outcome);
// Of each batch of an evaluation: from when the first worker began it to when the last had its part
// of the answers.
std::vector<double> batch_seconds(const Outcome& outcome);
// On the scheduler's clock.
std::vector<runtime::WorkerTrace> traces_of(const Outcome& outcome);
// Restarts, commits and checkpoints; empty where there were none.
std::optional<runtime::WorkerTrace> scheduler_trace_of(const Outcome& outcome);

}  // namespace kerf::apps
