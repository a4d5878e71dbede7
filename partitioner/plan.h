// The plan: model + layouts + connectors + stages + binding + predicted costs. A plain copyable
// value, a text file that reads back identically, and checkable.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/bound.h"
#include "partitioner/connector.h"
#include "partitioner/cost.h"
#include "partitioner/in_flight.h"
#include "partitioner/micro_batch_sizes.h"
#include "partitioner/model.h"
#include "partitioner/request.h"

namespace kerf::partitioner {

// A row of the table of cuts (cut.h); those that code speaks of have names here.
enum class Cut : uint8_t { kLayer, kFeature, kBatch, kHybrid, kFree };
std::string_view to_string(Cut cut);
Cut parse_cut(const std::string& name);

// Stages divide the operators; the graph of stages is acyclic. A stage's parts form its
// group, in turn those of each replica.
struct Stage {
  std::vector<NodeId> nodes;  // in model order
  std::vector<int> parts;
  bool interleaved = false;  // B makes the gradients of inputs and weights node by node
  bool operator==(const Stage&) const = default;
};

inline constexpr int kMostParts = 4096;
inline constexpr int kMostWorkers = 1024;

// Per step of `batch` rows in `micro_batches`.
struct WorkerPrediction {
  int worker = 0;
  double forward_flops = 0;
  double seconds = 0;  // computing, forward and gradients, of one step
  int64_t weight_bytes = 0;
  int64_t activation_bytes = 0;  // kept for the gradients, at the most micro-batches in flight
  int64_t peak_bytes = 0;        // weights, gradients, optimizer state, activations, slots
  // The same without what kernels take for themselves, which is the machine's and not the plan's to
  // say; empty: of a file from before it was told.
  std::optional<int64_t> tensor_bytes = std::nullopt;
  int64_t messages = 0;  // sent
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  bool operator==(const WorkerPrediction&) const = default;
};

struct Plan {
  std::string model;        // name
  std::string fingerprint;  // of the model
  Cut cut = Cut::kLayer;
  int64_t batch = 0;
  int micro_batches = 0;
  std::vector<int64_t> given_sizes = {};  // rows of each of them; empty: as even as can be
  std::string schedule;                   // name that the prediction assumed
  std::optional<KeptRequest> request;     // what else it assumed; empty: not told
  std::vector<Stage> stages;
  Division division;                 // what each part computes of each node
  std::vector<ops::Layout> layouts;  // by value; follow from the division
  std::vector<int> binding;          // part -> worker
  std::vector<int> replica_of = {};  // by micro-batch (replicas.h); empty: there is one
  std::vector<Route> routes;
  std::vector<WorkerPrediction> workers;
  double bottleneck = 0;        // of the objective that was minimised
  std::optional<double> bound;  // no such plan has a lower one; only the search for it tells
  Witness witness = {};         // of the bound

  // How the rows of a step go to its micro-batches, also of one that has fewer than `batch`.
  MicroBatchSizes sizes() const { return MicroBatchSizes(micro_batches, given_sizes); }
  int64_t largest_micro_batch() const { return sizes().largest(batch); }  // rows of it
  int replicas() const { return division.replica_parts > 0 ? parts() / division.replica_parts : 1; }
  int parts() const { return static_cast<int>(binding.size()); }
  int workers_bound() const;  // one more than the largest number of a worker
  std::vector<int> workers_of(const Stage& stage) const;  // each once, in the order of its parts
  int stage_of(NodeId node) const;                        // -1 if nowhere
  bool operator==(const Plan&) const = default;
};

// Node -> stage; -1 where it is in none. Passes over nodes that are not within `nodes`.
std::vector<int> stages_of_nodes(const Plan& plan, int nodes);
// Part -> stage; -1 where it is in none.
std::vector<int> stages_of_parts(const Plan& plan);
// Whether both ends of a route are parts of one worker: no transport carries its messages.
bool is_local(const Plan& plan, const Route& route);

// Messages and bytes of a route in one step.
struct Traffic {
  int64_t messages = 0;
  int64_t bytes = 0;
  bool operator==(const Traffic&) const = default;
};
// By route, for a step of `batch` rows, as the schedule has it that the plan was made for;
// `gradients` false: of forward passes alone.
std::vector<Traffic> predict_traffic(const Model& model, const Plan& plan, int64_t batch,
                                     bool gradients = true);
// Adds what a step's messages come to, to each worker's that sends and receives them. A prediction
// for every worker bound.
void add_traffic(const Model& model, const Plan& plan, std::vector<WorkerPrediction>& workers);

// Everything that is wrong with `plan` for `model`; empty if it is sound. Recomputes connectors and
// compares; checks layouts, stages (acyclic, complete), binding.
std::vector<std::string> validate(const Model& model, const Plan& plan);
// That, of what was decided only: data and parameters may have no layout yet, and neither
// connectors nor predictions are looked at.
std::vector<std::string> validate_decisions(const Model& model, const Plan& plan);

// All that the plan says; or what was decided, without what follows from it, one line per stage:
// who edits that moves a boundary by changing the name of a stage's first operator.
enum class PlanText : uint8_t { kWhole, kDecisions };
std::string write_plan(const Model& model, const Plan& plan, PlanText form = PlanText::kWhole);

// Micro-batches in flight, by the name of a schedule; null where nobody here knows the schedule.
using InFlightOf = std::function<std::unique_ptr<InFlight>(const std::string& schedule)>;
// Reads either. Throws Error{kUsage} naming file, line or path on anything malformed, and Unsound
// (unsound.h) on what can be read but does not hold together, or is another model's; what stands is
// verified, what is absent is derived (complete_plan.h). Predictions that stand are as Kerf wrote
// them where the checksum is right, else compared with fresh ones; both take `in_flight_of` (empty:
// every micro-batch is in flight at once). The result of a whole text equals what was written.
Plan read_plan(const Model& model, const std::string& text, const std::string& origin,
               const InFlightOf& in_flight_of = {});

}  // namespace kerf::partitioner
