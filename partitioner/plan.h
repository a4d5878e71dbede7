// The plan: model + layouts + connectors + stages + binding + predicted costs. A plain copyable
// value, a text file that reads back identically, and checkable.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "partitioner/connector.h"
#include "partitioner/cost.h"
#include "partitioner/model.h"

namespace kerf::partitioner {

enum class Cut : uint8_t { kLayer, kFeature, kHybrid, kFree };
std::string_view to_string(Cut cut);
Cut parse_cut(const std::string& name);

// Stages divide the operators; the graph of stages is acyclic. A stage's parts form its group.
struct Stage {
  std::vector<NodeId> nodes;  // in model order
  std::vector<int> parts;
  bool interleaved = false;  // B makes the gradients of inputs and weights node by node
  bool operator==(const Stage&) const = default;
};

// Per step of `batch` rows in `micro_batches`.
struct WorkerPrediction {
  int worker = 0;
  double forward_flops = 0;
  double seconds = 0;  // computing, forward and gradients, of one step
  int64_t weight_bytes = 0;
  int64_t activation_bytes = 0;  // kept for the gradients, at the most micro-batches in flight
  int64_t peak_bytes = 0;        // weights, gradients, optimizer state, activations, slots
  int64_t messages = 0;          // sent
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
  std::string schedule;  // name that the prediction assumed
  std::vector<Stage> stages;
  std::vector<ops::Layout> layouts;  // by value, completed
  std::vector<int> binding;          // part -> worker
  std::vector<Route> routes;
  std::vector<WorkerPrediction> workers;
  double bottleneck = 0;  // of the objective that was minimised
  double bound = 0;       // lower bound of it; gap = bottleneck / bound - 1

  int parts() const { return static_cast<int>(binding.size()); }
  int workers_bound() const;        // one more than the largest number of a worker
  int stage_of(NodeId node) const;  // -1 if nowhere
  bool operator==(const Plan&) const = default;
};

// Whether both ends of a route are parts of one worker: no transport carries its messages.
bool is_local(const Plan& plan, const Route& route);

// Messages and bytes of a route in one step.
struct Traffic {
  int64_t messages = 0;
  int64_t bytes = 0;
  bool operator==(const Traffic&) const = default;
};
// By route, for a step of `batch` rows; `gradients` false: a forward-only step.
std::vector<Traffic> predict_traffic(const Model& model, const Plan& plan, int64_t batch,
                                     bool gradients = true);

// Everything that is wrong with `plan` for `model`; empty if it is sound. Recomputes connectors and
// compares; checks layouts, stages (acyclic, complete), binding.
std::vector<std::string> validate(const Model& model, const Plan& plan);

// Text, and back. read_plan throws Error{kUsage} naming file, line or path on anything malformed,
// and on a plan for another model; the result is validated and equals what was written.
std::string write_plan(const Model& model, const Plan& plan);
Plan read_plan(const Model& model, const std::string& text, const std::string& origin);

}  // namespace kerf::partitioner
