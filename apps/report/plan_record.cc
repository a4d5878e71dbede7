#include "apps/report/plan_record.h"

#include <map>
#include <utility>

#include "apps/report/json_fields.h"
#include "apps/report/plan_certificate.h"
#include "apps/report/plan_parts.h"
#include "apps/report/table.h"
#include "partitioner/complete_plan.h"
#include "partitioner/connector_words.h"
#include "partitioner/part.h"
#include "partitioner/sums.h"
#include "schedmp/interpreter.h"
#include "schedmp/simulate.h"
#include "schedmp/training/kept_bytes.h"
#include "schedmp/verify.h"

namespace kerf::apps {

using partitioner::Model;
using partitioner::Plan;
using partitioner::Traffic;

namespace {

std::vector<PlanRecord::Stage> stages_of(const Model& model, const Plan& plan) {
  std::vector<PlanRecord::Stage> stages;
  for (const partitioner::Stage& stage : plan.stages) {
    PlanRecord::Stage& record = stages.emplace_back();
    for (const partitioner::NodeId node : stage.nodes)
      record.nodes.push_back(model.node(node).name);
    record.workers = plan.workers_of(stage);
    if (plan.replicas() > 1) record.replicas = plan.replicas();
  }
  return stages;
}

std::vector<PlanRecord::Route> routes_of(const Model& model, const Plan& plan) {
  const auto traffic = partitioner::predict_traffic(model, plan, plan.batch);
  const partitioner::Sources sources(model, plan.division, partitioner::stages_of_parts(plan));
  const partitioner::Sums sums(sources);
  partitioner::ConnectorWords words(sums);
  std::vector<PlanRecord::Route> routes;
  for (size_t i = 0; i < plan.routes.size(); ++i) {
    const partitioner::Route& route = plan.routes[i];
    const partitioner::RouteKind kind = partitioner::kind_of(model, plan.division, route);
    routes.push_back({.value = partitioner::value_name(model, route),
                      .gradient = route.gradient,
                      .from = plan.binding[static_cast<size_t>(route.from)],
                      .to = plan.binding[static_cast<size_t>(route.to)],
                      .connectors = words.of(route),
                      .of_loss = kind == partitioner::RouteKind::kLoss,
                      .of_weights = kind == partitioner::RouteKind::kWeight,
                      .of_step = kind == partitioner::RouteKind::kStep,
                      .messages = traffic[i].messages,
                      .bytes = traffic[i].bytes});
  }
  return routes;
}

// Stages are numbered in the order in which they run, so none feeds one before it.
bool feeds_forward_only(const Model& model, const Plan& plan) {
  const std::vector<int> stage_of = partitioner::stages_of_nodes(plan, model.nodes());
  for (partitioner::ValueId value = 0; value < model.values(); ++value) {
    const partitioner::NodeId producer = model.value(value).producer;
    if (producer < 0) continue;
    for (const partitioner::Use& use : model.uses(value))
      if (stage_of[static_cast<size_t>(use.node)] < stage_of[static_cast<size_t>(producer)])
        return false;
  }
  return true;
}

int64_t has(const std::string& words, std::string_view word) {
  return words.find(word) == std::string::npos ? 0 : 1;
}

// What the cut inserted, by what it consists of and which way it goes.
std::string connectors_text(const PlanRecord& record, bool colour) {
  struct Kind {
    int64_t routes = 0;
    Traffic traffic;
  };
  std::map<std::pair<bool, std::string>, Kind> kinds;
  for (const PlanRecord::Route& route : record.routes) {
    if (route.connectors.empty()) continue;
    Kind& kind = kinds[{route.gradient, route.connectors}];
    ++kind.routes;
    kind.traffic.messages += route.messages;
    kind.traffic.bytes += route.bytes;
  }
  Table table({"inserted", "for", "times", "messages", "bytes"});
  for (const auto& [what, kind] : kinds)
    table.add({what.second, what.first ? "gradients" : "values", human_count(kind.routes),
               human_count(kind.traffic.messages), bytes_text(kind.traffic.bytes)});
  return kinds.empty() ? std::string() : "\n" + table.text(colour);
}

std::vector<std::string> kept_names(const Model& model, ops::Role role) {
  std::vector<std::string> names;
  for (const partitioner::ValueId id : model.kept_values())
    if (model.value(id).role == role) names.push_back(model.value(id).name);
  return names;
}

}  // namespace

PlanRecord::StepTraffic PlanRecord::per_step() const {
  StepTraffic step;
  for (const Route& route : routes) {
    Traffic& sum = route.of_loss      ? step.loss
                   : route.of_weights ? step.weights
                   : route.of_step    ? step.step
                                      : step.layers;
    sum.messages += route.messages;
    sum.bytes += route.bytes;
  }
  return step;
}

PlanRecord::Connectors PlanRecord::connectors() const {
  Connectors count;
  for (const Route& route : routes) {
    count.bridge += has(route.connectors, "bridge");
    count.slice += has(route.connectors, "slice");
    count.concat += has(route.connectors, "concat");
    count.sum += has(route.connectors, "sum");
  }
  return count;
}

int64_t PlanRecord::cut_bytes() const {
  int64_t sum = 0;
  for (const Route& route : routes)
    if (!route.gradient && !route.of_weights) sum += route.bytes;
  return sum;
}

PlanRecord record_of(const Model& model, const Plan& plan) {
  return {.model = plan.model,
          .fingerprint = plan.fingerprint,
          .cut = std::string(partitioner::to_string(plan.cut)),
          .batch = plan.batch,
          .micro_batches = plan.micro_batches,
          .given_sizes = plan.given_sizes,
          .schedule = plan.schedule,
          .workers = plan.workers,
          .stages = stages_of(model, plan),
          .routes = routes_of(model, plan),
          .bottleneck = plan.bottleneck,
          .bound = plan.bound,
          .witness = plan.witness.text,
          .acyclic = feeds_forward_only(model, plan),
          .trained = kept_names(model, ops::Role::kParameter),
          .frozen = kept_names(model, ops::Role::kFrozen)};
}

PlanRecord record_of(const Model& model, const Plan& plan, const schedmp::Schedule& schedule,
                     const partitioner::Setting& setting) {
  PlanRecord record = record_of(model, plan);
  const auto parts = partitioner::lower(model, plan, schedmp::lowering_for(schedule, setting));
  record.parts = parts_of(model, plan, parts, schedule);
  schedmp::Verdict verdict = schedmp::verify(model, plan, parts, schedule, setting);
  if (verdict.ok()) record.proved_bytes = std::move(verdict.peak_bytes);
  if (schedule.trains())
    record.kept_bytes =
        schedmp::kept_bytes(model, parts, plan.workers_bound(), setting.optimizer_states);
  const auto timeline =
      schedmp::simulate(model, plan, parts, schedule, partitioner::request_of_plan(plan).speed);
  if (!timeline) return record;
  record.step_seconds = timeline->step_seconds;
  record.copy_seconds = timeline->copying;
  for (int worker = 0; worker < schedule.workers(); ++worker)
    record.idle.push_back(timeline->idle(worker));
  return record;
}

Json rows_json(const std::vector<int64_t>& rows) { return to_json(rows); }

std::vector<int64_t> read_rows(const Json& json, const std::string& where) {
  std::vector<int64_t> rows;
  from_json(json, where, rows);
  return rows;
}

std::string plan_text(const PlanRecord& record, bool colour) {
  std::string text = format(
      "{}, {} cut over {}, batch {} in {}, {}\n\n", record.model, record.cut,
      plural(static_cast<long long>(record.workers.size()), "worker"), record.batch,
      partitioner::sizes_in_words(record.micro_batches, record.given_sizes), record.schedule);
  text += workers_text(record, colour) + "\n" + stages_text(record);
  text += connectors_text(record, colour);
  const PlanRecord::StepTraffic step = record.per_step();
  text += format("\nper step: {} of {} between layers, {} of {} for the loss\n",
                 plural(step.layers.messages, "message"), bytes_text(step.layers.bytes),
                 human_count(step.loss.messages), bytes_text(step.loss.bytes));
  if (step.weights.messages > 0)
    text += format("once a step: {} of {} for shared weights\n",
                   plural(step.weights.messages, "message"), bytes_text(step.weights.bytes));
  if (step.step.messages > 0)
    text += format("once a step: {} of {} for the step vector\n",
                   plural(step.step.messages, "message"), bytes_text(step.step.bytes));
  if (record.step_seconds)
    text += format(
        "a step takes {} as simulated; copies are what a worker packs, unpacks and adds "
        "up, idle is what it waits\n",
        human_seconds(*record.step_seconds));
  if (partitioner::known_gap(record.bottleneck, record.bound))
    text += format("the slowest worker: {}\n",
                   certificate_text(record.bottleneck, {*record.bound, record.witness}));
  return text;
}

}  // namespace kerf::apps
