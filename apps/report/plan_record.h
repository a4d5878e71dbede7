// A plan as people and programs want to read it: what `kerf plan` prints and a run's report
// repeats. `to_json(record)` (json_fields.h) is its JSON. Plain values; no threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/bound.h"
#include "partitioner/plan.h"
#include "runtime/json.h"
#include "schedmp/schedule.h"

namespace kerf::apps {

struct PlanRecord {
  struct Stage {
    std::vector<std::string> nodes;
    std::vector<int> workers;          // all of each replica in turn
    std::optional<int> replicas = {};  // where there are several
  };
  struct Route {
    std::string value;
    bool gradient = false;
    int from = 0;  // worker
    int to = 0;
    std::string
        connectors;  // what was inserted: "slice -> bridge -> concat"; of the step's, nothing
    bool of_loss = false;
    bool of_weights = false;
    bool of_step = false;  // the step vector's
    int64_t messages = 0;  // of one step
    int64_t bytes = 0;
  };
  // A worker of a stage; as partitioner::PartPrediction.
  struct Part {
    int stage = 0;
    int worker = 0;
    int operators = 0;
    double forward_flops = 0;
    double seconds = 0;
    int64_t weight_bytes = 0;
    int64_t activation_bytes = 0;
    int64_t messages = 0;
    int64_t bytes_in = 0;
    int64_t bytes_out = 0;
    bool operator==(const Part&) const = default;
  };
  // How many connectors of each kind the routes are made of.
  struct Connectors {
    int64_t bridge = 0;
    int64_t slice = 0;
    int64_t concat = 0;
    int64_t sum = 0;
    bool operator==(const Connectors&) const = default;
  };
  // Of one step: between the layers, what the loss adds (scores and their gradients), what weights
  // cost that several parts share, and the step vector.
  struct StepTraffic {
    partitioner::Traffic layers;
    partitioner::Traffic loss;
    partitioner::Traffic weights;
    partitioner::Traffic step;
    bool operator==(const StepTraffic&) const = default;
  };

  std::string model;
  std::string fingerprint;
  std::string cut;
  int64_t batch = 0;
  int micro_batches = 0;
  std::vector<int64_t> given_sizes = {};  // rows of each of them, where a person said
  std::string schedule;
  std::vector<partitioner::WorkerPrediction> workers;
  std::vector<Stage> stages;
  std::vector<Route> routes;
  std::vector<Part> parts = {};  // empty of what was recorded without a schedule
  double bottleneck = 0;
  std::optional<double> bound;
  std::string witness = {};  // of the bound; empty of a plan that was read
  bool acyclic = true;       // the graph of stages
  // Names of the weights that are updated, and of those that stay.
  std::vector<std::string> trained;
  std::vector<std::string> frozen;
  // As simulated: of a step, and by worker what of it goes into copying (simulate.h) and the part
  // of it in which it waits. Empty of what was not simulated, or hangs.
  std::optional<double> step_seconds = std::nullopt;
  std::vector<double> copy_seconds = {};
  std::vector<double> idle = {};
  // By worker: what it takes under the schedule that will run, to the byte, slots and all, as it is
  // proved; the planner predicts the same (WorkerPrediction). Empty of what was not verified.
  std::vector<int64_t> proved_bytes = {};
  // By worker: what it leaves for a restart in each of two files, beside that (kept_bytes.h). Empty
  // of what trains nothing.
  std::vector<int64_t> kept_bytes = {};

  int64_t peak_bytes(const partitioner::WorkerPrediction& worker) const {
    const auto at = static_cast<size_t>(worker.worker);
    return at < proved_bytes.size() ? proved_bytes[at] : worker.peak_bytes;
  }
  StepTraffic per_step() const;
  Connectors connectors() const;
  int64_t cut_bytes() const;  // of activations' values, in one step
  // Empty where there is no bound.
  std::optional<double> gap() const {
    if (!bound) return std::nullopt;
    return partitioner::gap_of(bottleneck, *bound);
  }
};

PlanRecord record_of(const partitioner::Model& model, const partitioner::Plan& plan);
// With what each worker of each stage takes, and the step as it unfolds, under a schedule that fits
// the plan.
PlanRecord record_of(const partitioner::Model& model, const partitioner::Plan& plan,
                     const schedmp::Schedule& schedule, const partitioner::Setting& setting);

std::string plan_text(const PlanRecord& record, bool colour);

// Rows of micro-batches, a list. read_rows() throws Error{kUsage} that names `where`.
Json rows_json(const std::vector<int64_t>& rows);
std::vector<int64_t> read_rows(const Json& json, const std::string& where);

template <class Fields>
void fields(Fields& f, partitioner::Traffic& traffic) {
  f("messages", traffic.messages);
  f("bytes", traffic.bytes);
}

template <class Fields>
void fields(Fields& f, partitioner::WorkerPrediction& worker) {
  f("worker", worker.worker);
  f("forward_flops", worker.forward_flops);
  f("seconds", worker.seconds);
  f("weight_bytes", worker.weight_bytes);
  f("activation_bytes", worker.activation_bytes);
  f("peak_bytes", worker.peak_bytes);
  f("messages", worker.messages);
  f("bytes_in", worker.bytes_in);
  f("bytes_out", worker.bytes_out);
}

template <class Fields>
void fields(Fields& f, PlanRecord::Stage& stage) {
  f("nodes", stage.nodes);
  f("workers", stage.workers);
  f.newer("replicas", stage.replicas);
}

template <class Fields>
void fields(Fields& f, PlanRecord::Route& route) {
  f("value", route.value);
  f("gradient", route.gradient);
  f("from", route.from);
  f("to", route.to);
  f("connectors", route.connectors);
  f("of_loss", route.of_loss);
  f.newer("of_weights", route.of_weights);
  f.newer("of_step", route.of_step);
  f("messages", route.messages);
  f("bytes", route.bytes);
}

template <class Fields>
void fields(Fields& f, PlanRecord::Part& part) {
  f("stage", part.stage);
  f("worker", part.worker);
  f("operators", part.operators);
  f("forward_flops", part.forward_flops);
  f("seconds", part.seconds);
  f("weight_bytes", part.weight_bytes);
  f("activation_bytes", part.activation_bytes);
  f("messages", part.messages);
  f("bytes_in", part.bytes_in);
  f("bytes_out", part.bytes_out);
}

template <class Fields>
void fields(Fields& f, PlanRecord::Connectors& connectors) {
  f("bridge", connectors.bridge);
  f("slice", connectors.slice);
  f("concat", connectors.concat);
  f("sum", connectors.sum);
}

template <class Fields>
void fields(Fields& f, PlanRecord::StepTraffic& traffic) {
  f("between_layers", traffic.layers);
  f("loss", traffic.loss);
  f.newer("weights", traffic.weights);
  f.newer("step", traffic.step);
}

template <class Fields>
void fields(Fields& f, PlanRecord& plan) {
  f("model", plan.model);
  f("fingerprint", plan.fingerprint);
  f("cut", plan.cut);
  f("batch", plan.batch);
  f("micro_batches", plan.micro_batches);
  f.spoken("micro_batch_rows", plan.given_sizes, rows_json, read_rows);
  f("schedule", plan.schedule);
  f("workers", plan.workers);
  f("stages", plan.stages);
  f("routes", plan.routes);
  f.newer("parts", plan.parts);
  f.derived("connectors", plan.connectors());
  f.derived("per_step", plan.per_step());
  f("bottleneck", plan.bottleneck);
  f("bound", plan.bound);
  f.derived("gap", plan.gap());
  f.derived("cut_bytes", plan.cut_bytes());
  f.newer("acyclic", plan.acyclic);
  f.newer("trained", plan.trained);
  f.newer("frozen", plan.frozen);
  f.newer("step_seconds", plan.step_seconds);
  f.newer("copy_seconds", plan.copy_seconds);
  f.newer("idle", plan.idle);
  f.newer("proved_bytes", plan.proved_bytes);
  f.newer("kept_bytes", plan.kept_bytes);
}

}  // namespace kerf::apps
