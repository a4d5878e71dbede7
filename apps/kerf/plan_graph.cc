#include "apps/kerf/plan_graph.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <set>
#include <variant>

#include "apps/kerf/flag_rules.h"
#include "apps/kerf/plan_check.h"
#include "apps/kerf/plan_front.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/report/plan_certificate.h"
#include "apps/report/table.h"
#include "apps/report/terminal.h"
#include "partitioner/given_stages.h"
#include "partitioner/graph_formats.h"
#include "partitioner/graph_plan.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "schedmp/action_costs.h"

namespace kerf::apps {

namespace {

using partitioner::CostGraph;
using partitioner::GraphPlan;
using partitioner::GraphWorker;

constexpr size_t kMaxGraph = size_t{1} << 30;
constexpr size_t kNamesShown = 12;
constexpr int kMostHosts = 64;
constexpr std::array kDevices = {"accelerator", "host", "kind 2", "kind 3"};

partitioner::ReadGraph read_graph(const std::string& file, const std::string& kind) {
  require(std::filesystem::is_regular_file(file), file,
          format("there is no such file; --format {} reads a graph from one, and a model needs no "
                 "--format",
                 kind));
  return partitioner::find_graph_format(kind).read(runtime::read_file(file, kMaxGraph), file);
}

struct PlannedGraph {
  partitioner::ReadGraph read;
  GraphPlan plan;
  double seconds = 0;  // of planning alone
  bool replicates = false;
};

// Of a flag, or of the graph's file.
void check_workers(const std::string& where, int workers) {
  require(workers >= 1 && workers <= kMostWorkers, where,
          format("{} workers are not within 1 and {}", workers, kMostWorkers));
}

partitioner::GraphRequest request_of(const PlanFlags& flags, const GraphFlags& graph,
                                     const partitioner::ReadGraph& read) {
  const partitioner::Cut cut = partitioner::parse_cut(flags.cut.value_or("layer"));
  require(
      cut == partitioner::Cut::kLayer || cut == partitioner::Cut::kHybrid, "--cut",
      "a graph that is no model has operators that nobody can split; layer cuts it, and hybrid, "
      "which replicates its stages");
  partitioner::GraphRequest request;
  request.replicates = cut == partitioner::Cut::kHybrid;
  request.workers = flags.workers.value_or(read.devices.value_or(flags.default_workers));
  request.memory = flags.memory ? flags.memory : read.memory;
  request.slack = flags.slack;
  if (flags.certify) request.effort = partitioner::kCertifyingEffort;
  request.stages_per_worker = graph.stages_per_worker;
  const bool alike = request.stages_per_worker > 1 || request.replicates;
  request.hosts = graph.hosts.value_or(alike ? 0 : read.hosts);
  check_workers(flags.workers ? "--workers" : *flags.model, request.workers);
  require(request.hosts <= kMostHosts, graph.hosts ? "--hosts" : *flags.model,
          format("{} devices of a second kind are not within 0 and {}", request.hosts, kMostHosts));
  return request;
}

partitioner::GivenStages given_by(const CostGraph& graph, const std::string& file) {
  return partitioner::stages_of_names(
      graph, partitioner::read_stages(runtime::read_file(file, kMaxGraph), file));
}

// As the file divides it; the bound is that of a search.
GraphPlan assigned(const CostGraph& graph, const std::string& file,
                   const partitioner::GraphRequest& request, const PlanFlags& flags) {
  const partitioner::GivenStages given = given_by(graph, file);
  if (!given.unsound.empty()) throw Error(ErrorCode::kUsage, given.unsound, file);
  require(!flags.workers || *flags.workers == given.stages, "--workers",
          format("{} has {}", file, plural(given.stages, "stage")));
  check_workers(file, given.stages);
  return partitioner::given_plan(graph, given, request.effort);
}

void refuse_infeasible(const std::variant<GraphPlan, partitioner::Infeasible>& answer,
                       const std::string& file) {
  if (const auto* why = std::get_if<partitioner::Infeasible>(&answer))
    throw Error(ErrorCode::kInfeasible, why->text(), file);
}

PlannedGraph plan_of(const PlanFlags& flags, const GraphFlags& graph, const std::string& kind) {
  require(flags.model.has_value(), "--format", "it reads a graph's file: name that, as MODEL");
  PlannedGraph planned{read_graph(*flags.model, kind), {}};
  const partitioner::GraphRequest request = request_of(flags, graph, planned.read);
  planned.replicates = request.replicates;
  require(!request.replicates || flags.assign.empty(), "--assign",
          "it is of a layer cut: leave out --cut hybrid");
  const auto start = std::chrono::steady_clock::now();
  if (!flags.assign.empty()) {
    planned.plan = assigned(planned.read.graph, flags.assign, request, flags);
  } else {
    auto answer = partitioner::plan_graph(planned.read.graph, request);
    refuse_infeasible(answer, *flags.model);
    planned.plan = std::get<GraphPlan>(std::move(answer));
  }
  planned.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return planned;
}

Json report(const CostGraph& graph, const std::string& kind, const PlannedGraph& planned) {
  const GraphPlan& plan = planned.plan;
  Json workers = Json::array();
  for (size_t w = 0; w < plan.workers.size(); ++w) {
    const GraphWorker& worker = plan.workers[w];
    Json nodes = Json::array();
    for (const int node : worker.nodes) nodes.push_back(graph.node(node).name);
    workers.push_back({{"worker", w},
                       {"device", kDevices[static_cast<size_t>(worker.device_type)]},
                       {"stages", worker.stages},
                       {"load", worker.load()},
                       {"work", worker.work},
                       {"wire", worker.wire},
                       {"bytes_in", worker.bytes_in},
                       {"memory", worker.memory},
                       {"nodes", nodes}});
  }
  std::vector<std::string> names;
  for (int node = 0; node < graph.size(); ++node) names.push_back(graph.node(node).name);
  return {{"graph", graph.name()},
          {"format", kind},
          {"cut", planned.replicates ? "hybrid" : "layer"},
          {"unit", graph.unit()},
          {"bottleneck", plan.bottleneck},
          {"lower_bound", plan.bound.value},
          {"gap", partitioner::gap_of(plan.bottleneck, plan.bound.value)},
          {"certificate", certificate_json(plan.bottleneck, plan.bound)},
          {"cut_bytes", static_cast<int64_t>(plan.cut_bytes)},
          {"acyclic", plan.acyclic},
          {"plan_seconds", planned.seconds},
          {"workers", workers},
          {"assignment", assignment_json(names, plan.stage_of)}};
}

// What goes from each stage to the next one, or back, in a chain that hands on what later ones
// read.
void add_crossing(const CostGraph& graph, const std::vector<int>& stage_of,
                  schedmp::ActionCosts& costs) {
  for (const partitioner::CostValue& value : graph.values()) {
    const bool back = graph.node(value.producer).backward;
    const int made = stage_of[static_cast<size_t>(value.producer)];
    int read = made;
    for (const int reader : value.readers) {
      if (graph.node(reader).backward != back) continue;
      const int stage = stage_of[static_cast<size_t>(reader)];
      read = back ? std::min(read, stage) : std::max(read, stage);
    }
    for (int stage = std::min(made, read); stage < std::max(made, read); ++stage) {
      const auto before = static_cast<size_t>(stage);
      if (!back) costs.bytes[before].forward += value.forward_bytes;
      double& returned = costs.bytes[before + 1].input_gradient;
      if (back)
        returned += value.forward_bytes;
      else if (!graph.has_backward())
        returned += std::max(0.0, value.bytes - value.forward_bytes);
    }
  }
}

void add_kept(const CostGraph& graph, const std::vector<int>& stage_of,
              schedmp::ActionCosts& costs) {
  for (const partitioner::Held& held : graph.held()) {
    std::set<int> stages;
    for (const int node : held.nodes) stages.insert(stage_of[static_cast<size_t>(node)]);
    for (const int stage : stages)
      costs.bytes[static_cast<size_t>(stage)].kept += held.per_micro_batch;
  }
}

// Of one kind of device; what goes back is half input gradients, half weight gradients.
schedmp::ActionCosts stage_costs_of(const CostGraph& graph, const GraphPlan& plan) {
  int stages = 0;
  for (const int stage : plan.stage_of) stages = std::max(stages, stage + 1);
  schedmp::ActionCosts costs;
  costs.stages.assign(static_cast<size_t>(stages), {0, 0, 0});
  for (int node = 0; node < graph.size(); ++node) {
    const partitioner::Work& work = graph.work(0, node);
    schedmp::StageCosts& stage =
        costs.stages[static_cast<size_t>(plan.stage_of[static_cast<size_t>(node)])];
    const bool is_back = graph.node(node).backward;
    const double back = is_back ? work.total() : work.backward;
    stage.forward += is_back ? 0 : work.forward;
    stage.input_gradient += back / 2;
    stage.weight_gradient += back / 2;
  }
  costs.bytes.resize(costs.stages.size());
  add_crossing(graph, plan.stage_of, costs);
  add_kept(graph, plan.stage_of, costs);
  return costs;
}

std::string names_of(const CostGraph& graph, const GraphWorker& worker) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(worker.nodes.size(), kNamesShown); ++i)
    names.push_back(in_line(graph.node(worker.nodes[i]).name));
  const size_t more = worker.nodes.size() - names.size();
  return format("{}{}", fmt::join(names, " "),
                more > 0 ? format(" and {} more", more) : std::string());
}

std::string text(const CostGraph& graph, const PlannedGraph& planned, bool colour) {
  const GraphPlan& plan = planned.plan;
  const std::string& unit = graph.unit();
  std::string result = format("{}: {} nodes, {} cut over {}\n\n", graph.name(), graph.size(),
                              planned.replicates ? "hybrid" : "layer",
                              plural(static_cast<long long>(plan.workers.size()), "worker"));
  Table table({"worker", "nodes", "load " + unit, "work " + unit, "wire " + unit, "in", "memory"});
  for (size_t w = 0; w < plan.workers.size(); ++w) {
    const GraphWorker& worker = plan.workers[w];
    table.add({format("{}{}", w, worker.device_type == 0 ? "" : " (host)"),
               human_count(static_cast<long long>(worker.nodes.size())),
               format("{:.4g}", worker.load()), format("{:.4g}", worker.work),
               format("{:.4g}", worker.wire), human_bytes(worker.bytes_in),
               human_bytes(worker.memory)});
  }
  result += table.text(colour) + "\n";
  for (size_t w = 0; w < plan.workers.size(); ++w)
    result += format("stage {} on {}: {}\n", fmt::join(plan.workers[w].stages, ", "), w,
                     names_of(graph, plan.workers[w]));
  result += format("\nbottleneck {:.6g} {}, {}\n", plan.bottleneck, unit,
                   certificate_text(plan.bottleneck, plan.bound));
  result += format("{} cross forward; the graph of stages is {}\n", human_bytes(plan.cut_bytes),
                   plan.acyclic ? "acyclic" : "CYCLIC");
  return result;
}

}  // namespace

int plan_graph_file(const CLI::App& command, const PlanFlags& flags, const GraphFlags& graph,
                    const std::string& kind, bool json) {
  check_flags_of_cut(&command, flags.cut.value_or("layer"));
  require(flags.model.has_value(), "--format", "it reads a graph's file: name that, as MODEL");
  if (!graph.search.check.empty()) {
    check_flags_of_stages(&command);
    return answer_check(given_by(read_graph(*flags.model, kind).graph, graph.search.check).unsound,
                        graph.search.check, json);
  }
  if (graph.search.front) {
    const partitioner::ReadGraph read = read_graph(*flags.model, kind);
    const partitioner::GraphRequest request = request_of(flags, graph, read);
    refuse_infeasible(partitioner::plan_graph(read.graph, request), *flags.model);
    answer_front(read.graph, request, json);
    return 0;
  }
  const PlannedGraph planned = plan_of(flags, graph, kind);
  const CostGraph& costs = planned.read.graph;
  if (!graph.search.graph_out.empty())
    runtime::write_file_atomic(graph.search.graph_out, partitioner::write_costs(costs));
  if (!graph.search.stage_costs.empty())
    runtime::write_file_atomic(graph.search.stage_costs,
                               schedmp::write_costs(stage_costs_of(costs, planned.plan)));
  answer(
      json, [&] { return report(costs, kind, planned); },
      [&](bool colour) { return text(costs, planned, colour); });
  return 0;
}

}  // namespace kerf::apps
