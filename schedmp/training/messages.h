// What the two halves of Training say to each other. Plain values that travel by runtime/wire.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/optimizer.h"
#include "runtime/trace.h"
#include "schedmp/steps.h"
#include "schedmp/training/lbfgs_vectors.h"
#include "schedmp/training/replicas.h"

namespace kerf::schedmp {

struct TrainingJob {
  std::string model_source;
  std::string plan;      // text
  std::string schedule;  // text
  std::string dataset;
  bool opens_train = true;  // which splits the run reads
  bool opens_test = true;
  std::string train_fingerprint;
  std::string test_fingerprint;
  bool shuffle = true;
  uint64_t seed = 1;
  ops::OptimizerOptions optimizer;
  std::string shards;            // folder
  std::string weights;           // file to start from
  std::string results;           // folder for those of a model without a loss
  bool trains = true;            // false: it only evaluates
  std::vector<int32_t> credits;  // slots of each route
  int64_t memory = 0;            // bytes that the worker was proved to take, slots included
  ReplicaOptions replicas = {};
  int32_t first_worker = 0;  // of this one's replica: the plan's worker 0
  std::vector<std::pair<int32_t, int32_t>> tables = {};  // of part and table, its replica's
  int32_t history = 0;  // pairs that L-BFGS keeps; 0: another optimizer

  template <class Archive>
  void serialize(Archive& archive) {
    archive(model_source, plan, schedule, dataset, opens_train, opens_test, train_fingerprint,
            test_fingerprint, shuffle, seed, optimizer, shards, weights, results, trains, credits,
            memory, replicas, first_worker, tables, history);
  }
};

// The last four are of L-BFGS (lbfgs_weights.h).
enum class TaskKind : uint8_t {
  kTrain,
  kEvaluate,
  kSave,
  kPlace,    // the point is where the model is from now on
  kPortion,  // the gradient of these rows
  kCollect,  // all portions' gradients are added up
  kVectors,  // operations on vectors
};
// Whether a worker runs its row of the schedule, forward and back.
inline bool is_step(TaskKind kind) {
  return kind == TaskKind::kTrain || kind == TaskKind::kPlace || kind == TaskKind::kPortion;
}

// Rows [first, first + rows) of the order of an epoch of training, of the tests, or, of a portion,
// of the training rows as they lie.
struct TaskRows {
  TaskKind kind = TaskKind::kTrain;
  int64_t epoch = 0;
  int64_t first = 0;
  int64_t rows = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, epoch, first, rows);
  }
};

// One step: rows [first, first + rows) of the epoch's order.
struct TrainingTask {
  TaskKind kind = TaskKind::kTrain;
  int64_t sequence = 0;  // of all tasks; part of the tags of messages
  int64_t step = 0;      // of training
  int64_t epoch = 0;
  int64_t first = 0;
  int64_t rows = 0;
  bool trace = false;
  double learning_rate = 0;  // of a step of training
  TaskRows next = {};        // of the task behind it; none where that is not known yet
  Ramps ramps = {};          // of a step of training, where steps go on
  VectorWork work = {};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, sequence, step, epoch, first, rows, trace, learning_rate, next, ramps.fills,
            ramps.drains, work);
  }
};

// Evaluations count answers that are among so many.
inline constexpr int64_t kTop = 5;

struct RouteCount {
  int32_t route = 0;
  int64_t messages = 0;
  int64_t bytes = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(route, messages, bytes);
  }
};

struct TrainingResult {
  // Of training, one worker has them, out of the step vector; of an evaluation, each its share.
  bool has_loss = false;
  double loss = 0;  // sum over the step's rows, divided by their number
  int64_t correct = 0;
  int64_t in_top = 0;       // of an evaluation: right answers among the kTop largest scores
  double squared_norm = 0;  // of the gradient
  int cause = 0;            // the entry of the step vector that is not finite; 0: none
  int64_t begin_ns = 0;     // on the worker's clock, when its rows were loaded
  int64_t end_ns = 0;
  int64_t compute_ns = 0;
  int64_t wait_ns = 0;
  int64_t peak_bytes = 0;
  int64_t kernel_bytes = 0;  // beside it: tables and partial sums of kernels (ops/workbench.h)
  // What the process has in physical memory more than at its start, but for rows of data; and
  // those. Now and then: -1 in between, and where tensors are elsewhere.
  int64_t resident_bytes = -1;
  int64_t data_bytes = 0;
  int64_t bytes_in = 0;
  int64_t staleness = 0;  // clocks that fetched weights lacked at most, where replicas share them
  std::vector<double> sums;  // of operations on vectors, what they ask for
  std::vector<RouteCount> sent;
  std::vector<runtime::Span> spans;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(has_loss, loss, correct, in_top, squared_norm, cause, begin_ns, end_ns, compute_ns,
            wait_ns, peak_bytes, kernel_bytes, resident_bytes, data_bytes, bytes_in, staleness,
            sums, sent, spans);
  }
};

}  // namespace kerf::schedmp
