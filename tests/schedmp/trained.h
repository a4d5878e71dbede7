// A small model trained and tested by a crew of threads, under any cut, binding and schedule: what
// the tests of training compare.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/cut.h"
#include "schedmp/safetensors.h"
#include "schedmp/snapshots.h"
#include "schedmp/training/lbfgs_training.h"
#include "tests/support/async_world.h"

namespace kerf::schedmp::tests {

using partitioner::Cut;
using partitioner::Model;
using partitioner::Plan;

struct Case {
  std::string source = "12-24-18-10-5";
  Cut cut = Cut::kLayer;
  int workers = 1;
  std::string schedule = "1f1b";
  int64_t batch = 22;
  int micro_batches = 4;
  int64_t steps = 8;
  std::string shares = {};
  std::string text = {};          // of a schedule: its stages go where it has them
  std::vector<int> binding = {};  // part -> worker; empty: the cut's
  std::shared_ptr<kerf::tests::AsyncWorld> world = {};  // of its devices; null: `device`
  std::string device = "cpu";                           // of every worker
  ops::OptimizerOptions optimizer = {.momentum = 0.9};
  RateSchedule rates = {};
  int patience = 0;
  int slots = 2;
  std::vector<int64_t> given_sizes = {};  // rows of each micro-batch; empty: as even as can be
  std::string dataset = "rows";           // "rows, one odd": one of them has no number
  ReplicaOptions replicas = {};
  int64_t epochs = 1000;  // at most
  std::optional<LbfgsOptions> lbfgs = {};
  SnapshotOptions snapshots = {};
  int64_t drain_every = 0;

  // This, with micro-batches of so many rows.
  Case with_sizes(std::vector<int64_t> sizes) const {
    Case c = *this;
    c.batch = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    c.micro_batches = static_cast<int>(sizes.size());
    c.given_sizes = std::move(sizes);
    return c;
  }
};

struct Answer {
  std::vector<double> losses;
  std::vector<double> gradient_norms;
  std::vector<std::string> skipped;  // by step: what was not finite
  std::vector<EvaluationRecord> evaluations;
  int64_t trained_rows = 0;
  double evaluation_loss = 0;
  int64_t evaluated_rows = 0;
  int64_t correct = 0;
  std::vector<NamedTensor> weights;
  std::vector<RouteFigures> routes;
  std::vector<WorkerFigures> workers;
  std::vector<int64_t> proved_bytes;
  std::vector<int64_t> staleness;  // by step
  std::vector<int> left_out;       // likewise
  std::optional<Lbfgs> lbfgs;
  std::vector<int64_t> portions;  // of L-BFGS, by replica
  Plan plan;
};

// "braided", "dropping", "lenet5", or the sizes of a perceptron.
Model make_model(const std::string& source);
TrainingFactories factories();
Plan plan_of(const Model& model, const Case& c);
Answer train(const Case& c);

// That it answers the same on the test device, in some of its orders, and leaves nothing unordered.
void expect_same_when_late(Case c, const Answer& answer);
void expect_same_bits(const Answer& a, const Answer& b);
void expect_counted_as_predicted(const Answer& answer);
// What ran took what was proved, to the byte, and what was proved no more than the plan says.
void expect_memory_as_predicted(const Answer& answer);

}  // namespace kerf::schedmp::tests
