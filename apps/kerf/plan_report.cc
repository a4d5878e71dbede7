#include "apps/kerf/plan_report.h"

#include "apps/report/table.h"
#include "partitioner/sources.h"

namespace kerf::apps {

using partitioner::Model;
using partitioner::Plan;
using partitioner::Route;
using partitioner::Traffic;

namespace {

bool is_of_loss(const Model& model, const Plan& plan, const Route& route) {
  return partitioner::kind_of(model, plan.layouts, route) == partitioner::RouteKind::kLoss;
}

double gap_of(const Plan& plan) { return plan.bound > 0 ? plan.bottleneck / plan.bound - 1 : 0; }

Json worker_report(const partitioner::WorkerPrediction& worker) {
  return {{"worker", worker.worker},
          {"forward_flops", worker.forward_flops},
          {"seconds", worker.seconds},
          {"weight_bytes", worker.weight_bytes},
          {"activation_bytes", worker.activation_bytes},
          {"peak_bytes", worker.peak_bytes},
          {"messages", worker.messages},
          {"bytes_in", worker.bytes_in},
          {"bytes_out", worker.bytes_out}};
}

Json stages_report(const Model& model, const Plan& plan) {
  Json stages = Json::array();
  for (const partitioner::Stage& stage : plan.stages) {
    Json nodes = Json::array();
    for (const partitioner::NodeId node : stage.nodes) nodes.push_back(model.node(node).name);
    Json workers = Json::array();
    for (const int part : stage.parts) workers.push_back(plan.binding[static_cast<size_t>(part)]);
    stages.push_back({{"nodes", nodes}, {"workers", workers}});
  }
  return stages;
}

Json routes_report(const Model& model, const Plan& plan) {
  const auto traffic = partitioner::predict_traffic(model, plan, plan.batch);
  const partitioner::Sources sources(model, plan.layouts);
  Json routes = Json::array();
  for (size_t i = 0; i < plan.routes.size(); ++i) {
    const Route& route = plan.routes[i];
    routes.push_back({{"value", model.value(route.value).name},
                      {"gradient", route.gradient},
                      {"from", plan.binding[static_cast<size_t>(route.from)]},
                      {"to", plan.binding[static_cast<size_t>(route.to)]},
                      {"connectors", partitioner::connector_words(sources, route)},
                      {"of_loss", is_of_loss(model, plan, route)},
                      {"messages", traffic[i].messages},
                      {"bytes", traffic[i].bytes}});
  }
  return routes;
}

Json traffic_report(const Traffic& traffic) {
  return {{"messages", traffic.messages}, {"bytes", traffic.bytes}};
}

std::string bytes(int64_t count) { return human_bytes(static_cast<double>(count)); }

}  // namespace

StepTraffic step_traffic(const Model& model, const Plan& plan) {
  const auto traffic = partitioner::predict_traffic(model, plan, plan.batch);
  StepTraffic step;
  for (size_t i = 0; i < plan.routes.size(); ++i) {
    Traffic& sum = is_of_loss(model, plan, plan.routes[i]) ? step.loss : step.layers;
    sum.messages += traffic[i].messages;
    sum.bytes += traffic[i].bytes;
  }
  return step;
}

Json plan_report(const Model& model, const Plan& plan) {
  const StepTraffic step = step_traffic(model, plan);
  Json workers = Json::array();
  for (const auto& worker : plan.workers) workers.push_back(worker_report(worker));
  return {{"model", plan.model},
          {"fingerprint", plan.fingerprint},
          {"cut", partitioner::to_string(plan.cut)},
          {"batch", plan.batch},
          {"micro_batches", plan.micro_batches},
          {"schedule", plan.schedule},
          {"workers", workers},
          {"stages", stages_report(model, plan)},
          {"routes", routes_report(model, plan)},
          {"per_step",
           {{"between_layers", traffic_report(step.layers)}, {"loss", traffic_report(step.loss)}}},
          {"bottleneck", plan.bottleneck},
          {"bound", plan.bound},
          {"gap", gap_of(plan)}};
}

std::string plan_text(const Model& model, const Plan& plan, bool colour) {
  std::string text =
      format("{}, {} cut over {}, batch {} in {}, {}\n\n", plan.model,
             partitioner::to_string(plan.cut), plural(plan.workers_bound(), "worker"), plan.batch,
             plural(plan.micro_batches, "micro-batch"), plan.schedule);
  Table table({"worker", "forward", "time/step", "weights", "activations", "peak", "messages",
               "out", "in"});
  for (const auto& worker : plan.workers)
    table.add({format("{}", worker.worker), human_flops(worker.forward_flops),
               human_seconds(worker.seconds), bytes(worker.weight_bytes),
               bytes(worker.activation_bytes), bytes(worker.peak_bytes),
               human_count(worker.messages), bytes(worker.bytes_out), bytes(worker.bytes_in)});
  text += table.text(colour) + "\n";
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    std::vector<std::string> nodes;
    for (const auto node : plan.stages[s].nodes) nodes.push_back(model.node(node).name);
    std::vector<int> workers;
    for (const int part : plan.stages[s].parts)
      workers.push_back(plan.binding[static_cast<size_t>(part)]);
    text += format("stage {} on {}: {}\n", s, fmt::join(workers, ","), fmt::join(nodes, " "));
  }
  const StepTraffic step = step_traffic(model, plan);
  text += format("\nper step: {} of {} between layers, {} of {} for the loss\n",
                 plural(step.layers.messages, "message"), bytes(step.layers.bytes),
                 human_count(step.loss.messages), bytes(step.loss.bytes));
  if (plan.bound > 0)
    text += format("the slowest worker is at most {} above the best that any such cut can do\n",
                   human_percent(gap_of(plan)));
  return text;
}

}  // namespace kerf::apps
