#include "apps/kerf/plan_graph.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include "apps/kerf/answer.h"
#include "apps/kerf/flag_values.h"
#include "apps/report/table.h"
#include "partitioner/graph_formats.h"
#include "partitioner/graph_plan.h"
#include "runtime/file.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

using partitioner::CostGraph;
using partitioner::GraphPlan;
using partitioner::GraphStage;

constexpr size_t kMaxGraph = size_t{256} << 20;
constexpr size_t kNamesShown = 12;

void check_flags(const CLI::App& command) {
  constexpr std::array kFlags = {"MODEL", "format", "cut", "workers", "memory", "json"};
  for (const CLI::Option* option : command.get_options())
    require(option->count() == 0 || std::ranges::count(kFlags, option->get_single_name()) > 0,
            "--" + option->get_single_name(),
            "it is for models; a graph read with --format has no such thing");
}

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
};

PlannedGraph plan_of(const PlanFlags& flags, const std::string& kind) {
  const partitioner::Cut cut = partitioner::parse_cut(flags.cut.value_or("layer"));
  require(cut == partitioner::Cut::kLayer, "--cut",
          "a graph that is no model has operators that nobody can split; only layer cuts it");
  require(flags.model.has_value(), "--format", "it reads a graph's file: name that, as MODEL");
  PlannedGraph planned{read_graph(*flags.model, kind), {}};
  partitioner::GraphRequest request;
  request.workers = flags.workers.value_or(planned.read.devices.value_or(flags.default_workers));
  request.memory = flags.memory ? flags.memory : planned.read.memory;
  check_range(std::optional(request.workers), "--workers", kMostWorkers);
  const auto start = std::chrono::steady_clock::now();
  auto answer = partitioner::plan_graph(planned.read.graph, request);
  planned.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (const auto* why = std::get_if<partitioner::Infeasible>(&answer))
    throw Error(ErrorCode::kInfeasible, why->text(), *flags.model);
  planned.plan = std::get<GraphPlan>(std::move(answer));
  return planned;
}

Json certificate(const GraphPlan& plan) {
  return {{"kind", partitioner::is_exact(plan.bottleneck, plan.bound.value) ? "exact" : "bound"},
          {"value", plan.bound.value},
          {"witness", plan.bound.witness}};
}

Json report(const CostGraph& graph, const std::string& kind, const PlannedGraph& planned) {
  const GraphPlan& plan = planned.plan;
  Json workers = Json::array();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const GraphStage& stage = plan.stages[s];
    Json nodes = Json::array();
    for (const int node : stage.nodes) nodes.push_back(graph.node(node).name);
    workers.push_back({{"worker", s},
                       {"load", stage.work + stage.wire},
                       {"work", stage.work},
                       {"wire", stage.wire},
                       {"bytes_in", stage.bytes_in},
                       {"memory", stage.memory},
                       {"nodes", nodes}});
  }
  Json::object_t assignment;  // names are distinct; a search for each would take long
  for (int node = 0; node < graph.size(); ++node)
    assignment.emplace_back(graph.node(node).name, plan.stage_of[static_cast<size_t>(node)]);
  return {{"graph", graph.name()},
          {"format", kind},
          {"cut", "layer"},
          {"unit", graph.unit()},
          {"bottleneck", plan.bottleneck},
          {"lower_bound", plan.bound.value},
          {"gap", partitioner::gap_of(plan.bottleneck, plan.bound.value)},
          {"certificate", certificate(plan)},
          {"cut_bytes", static_cast<int64_t>(plan.cut_bytes)},
          {"acyclic", plan.acyclic},
          {"plan_seconds", planned.seconds},
          {"workers", workers},
          {"assignment", Json(std::move(assignment))}};
}

std::string names_of(const CostGraph& graph, const GraphStage& stage) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(stage.nodes.size(), kNamesShown); ++i)
    names.push_back(graph.node(stage.nodes[i]).name);
  const size_t more = stage.nodes.size() - names.size();
  return format("{}{}", fmt::join(names, " "),
                more > 0 ? format(" and {} more", more) : std::string());
}

std::string text(const CostGraph& graph, const PlannedGraph& planned, bool colour) {
  const GraphPlan& plan = planned.plan;
  const std::string& unit = graph.unit();
  std::string result = format("{}: {} nodes, layer cut over {}\n\n", graph.name(), graph.size(),
                              plural(static_cast<long long>(plan.stages.size()), "worker"));
  Table table({"worker", "nodes", "load " + unit, "work " + unit, "wire " + unit, "in", "memory"});
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const GraphStage& stage = plan.stages[s];
    table.add({format("{}", s), human_count(static_cast<long long>(stage.nodes.size())),
               format("{:.4g}", stage.work + stage.wire), format("{:.4g}", stage.work),
               format("{:.4g}", stage.wire), human_bytes(stage.bytes_in),
               human_bytes(stage.memory)});
  }
  result += table.text(colour) + "\n";
  for (size_t s = 0; s < plan.stages.size(); ++s)
    result += format("stage {} on {}: {}\n", s, s, names_of(graph, plan.stages[s]));
  result += format("\nbottleneck {:.6g} {}, {} ({})\n", plan.bottleneck, unit,
                   partitioner::is_exact(plan.bottleneck, plan.bound.value)
                       ? std::string("the least there is")
                       : human_percent(partitioner::gap_of(plan.bottleneck, plan.bound.value)) +
                             " above a lower bound",
                   plan.bound.witness);
  result += format("{} cross forward; the graph of stages is {}\n", human_bytes(plan.cut_bytes),
                   plan.acyclic ? "acyclic" : "CYCLIC");
  return result;
}

}  // namespace

int plan_graph_file(const CLI::App& command, const PlanFlags& flags, const std::string& kind,
                    bool json) {
  check_flags(command);
  const PlannedGraph planned = plan_of(flags, kind);
  const CostGraph& graph = planned.read.graph;
  answer(
      json, [&] { return report(graph, kind, planned); },
      [&](bool colour) { return text(graph, planned, colour); });
  return 0;
}

}  // namespace kerf::apps
