// A schedule unfolded in time, on the graph of its stages alone: what each worker does when.
//
//   worker 0  0F0 0F1 ....... 0B0 0B1      . it waits: for a message, or for a place for one
//   worker 1      1F0 1F1 1B0 1B1
//
// A worker takes its row's actions in order. An action begins once its messages are there, and is
// over once its own are on their way: a forward goes to each stage that reads it, an input gradient
// to each that sums it. Where rows name their transfers, those are taken in their places. For
// people and for proofs without a model; simulate.h has the times of a plan, and verify.h its
// messages. Members of a group act as one: who waits for a stage waits for all of them. Pure
// functions; an action of a stage that the graph lacks waits for nothing.
//
// A message takes nothing within a worker. Over a link that is known (links.h) it waits for those
// before it, is on the link for its bytes, and arrives a latency later, while both ends compute on;
// over any other it takes `transfer`, and waits for nobody. Each member of a group sends an equal
// share of it to each member of the other. Under rendezvous both ends wait until it has arrived.
// Not modelled: what a receiver or a host could not take in at once.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "partitioner/stage_graph.h"
#include "schedmp/links.h"
#include "schedmp/schedule.h"

namespace kerf::schedmp {

// Seconds, or any other unit. B takes I and W, RECOMPUTE what F does. REDUCE_GRAD takes nothing,
// and what is moved away and back neither: it is beside what is computed.
struct StageCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
  double update = 0;
  bool operator==(const StageCosts&) const = default;
};

struct StageBytes {
  // Of a message: of its forward, to each stage that reads it; of its input gradient, likewise; and
  // of the gradients of its weights, to each of its replicas.
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
  double kept = 0;  // of a micro-batch, from F to W, on each of its workers
  bool sends() const { return forward > 0 || input_gradient > 0; }
  bool operator==(const StageBytes&) const = default;
};

// Of what is said of a stage's micro-batches.
struct MicroBatchShare {
  double seconds = 1;  // of F, I, W and B
  double bytes = 1;    // of a message
  bool operator==(const MicroBatchShare&) const = default;
};

struct ActionCosts {
  std::vector<StageCosts> stages = {};  // of those that it lists
  double transfer = 0;                  // of a message over a link of which nothing is known
  StageCosts others = {};               // of all other stages
  std::vector<double> speeds = {};      // by worker: how many times as fast; of others 1
  // How much longer an action may take, as a fraction: each takes some of it, all of it as likely
  // as none, drawn by seed and step.
  double jitter = 0;
  uint64_t seed = 0;
  int64_t step = 0;
  Links links = {};
  std::vector<StageBytes> bytes = {};  // of those stages that it lists
  StageBytes other_bytes = {};         // of all other stages
  // By micro-batch, where they differ: what is said is of the largest. `transfer` is that of all of
  // them, and room is kept for the largest. Numbers beyond them are of the next step or period.
  std::vector<MicroBatchShare> shares = {};

  ActionCosts without_jitter() const {
    ActionCosts steady = *this;
    steady.jitter = 0;
    return steady;
  }
  const StageCosts& of_stage(int stage) const {
    return static_cast<size_t>(stage) < stages.size() ? stages[static_cast<size_t>(stage)] : others;
  }
  const StageBytes& bytes_of_stage(int stage) const {
    return static_cast<size_t>(stage) < bytes.size() ? bytes[static_cast<size_t>(stage)]
                                                     : other_bytes;
  }
  MicroBatchShare share_of(int micro_batch) const {
    if (shares.empty()) return {};
    return shares[static_cast<size_t>(std::max(micro_batch, 0)) % shares.size()];
  }
  double of(const Action& action) const;
  // As that worker's action of this number in its row.
  double of(const Action& action, int worker, size_t number) const;
};

// How many messages may be under way from one stage to another, sent and not yet taken up. At 0 a
// send waits for its receive, and neither end does anything else meanwhile; but within a worker
// there is nobody to meet, and nothing waits.
struct Buffering {
  static constexpr int kRendezvous = 0;
  static constexpr int kUnbounded = -1;
  int messages = kUnbounded;
};
std::string to_string(Buffering buffering);  // "under rendezvous"

struct Interval {
  double begin = 0;
  double end = 0;
};

struct Unfolded {
  std::vector<std::vector<Interval>> rows;  // by worker, by action; of a stuck row as many as ran
  // Who waits for whom in a circle, or for what nobody does: "worker 1: 1F0: waits for ever for
  // ..."; empty if every row reached its end.
  std::vector<std::string> stuck;
};

// O(actions, and edges times micro-batches).
Unfolded unfold(const Schedule& schedule, const partitioner::StageGraph& graph,
                const ActionCosts& costs = {}, Buffering buffering = {});

// Of rows that name their transfers what they compute alone: a row's intervals without the others.
Unfolded computed_of(const Schedule& schedule, Unfolded unfolded);

// The fewest messages, one at least, with which every row reaches its end; -1: no number will do.
int smallest_buffer(const Schedule& schedule, const partitioner::StageGraph& graph);

}  // namespace kerf::schedmp
