// Planning alone: how good the layer cut of a graph is, and how long it takes to find.
//
//   build/release/bench/planner                  the graphs of shared/data above the sources, where
//                                                they are, and chains of transformer blocks; also
//                                                all of planning for chains of 5,000 to 20,000
//                                                operators: cut, routes, predictions
//   build/release/bench/planner FORMAT FILE K    one graph over K workers
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "partitioner/cut.h"
#include "partitioner/graph_formats.h"
#include "partitioner/graph_plan.h"
#include "partitioner/zoo.h"
#include "runtime/file.h"

namespace kerf {
namespace {

using partitioner::CostFigures;
using partitioner::CostGraph;
using partitioner::GraphPlan;

// Blocks of a transformer, end to end:
//
//   x ── norm ──┬── q ──┐                  ┌──────────────────────┐
//    │          ├── k ──┼── mix ── out ── add ── norm ── up ── relu ── down ── add ──
//    │          └── v ──┘                  │
//    └─────────────────────────────────────┘
CostGraph transformer(int operators) {
  CostFigures figures;
  figures.name = format("blocks-{}", operators);
  figures.unit = "ms";
  figures.work.resize(1);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.9, 1.1);
  const auto add = [&](double work, double bytes, std::initializer_list<int> inputs) {
    const auto node = static_cast<int>(figures.nodes.size());
    figures.nodes.push_back({format("op{}", node), -1, false});
    const double forward = work * noise(random);
    figures.work[0].push_back({forward, 2 * forward});
    figures.held.push_back({{node}, 4 * bytes, bytes});
    // One value per node, at the node's number.
    figures.values.push_back({node, {}, 2 * bytes, bytes, bytes * 1e-8, 0});
    for (const int input : inputs)
      if (input >= 0) figures.values[static_cast<size_t>(input)].readers.push_back(node);
    return node;
  };
  int x = -1;
  while (static_cast<int>(figures.nodes.size()) < operators) {
    const int norm = add(0.01, 4e6, {x});
    const int q = add(0.3, 4e6, {norm});
    const int k = add(0.3, 4e6, {norm});
    const int v = add(0.3, 4e6, {norm});
    const int out = add(0.3, 4e6, {add(0.2, 4e6, {q, k, v})});
    const int sum = add(0.01, 4e6, {x, out});
    const int up = add(1.2, 16e6, {add(0.01, 4e6, {sum})});
    x = add(0.01, 4e6, {sum, add(1.2, 4e6, {add(0.02, 16e6, {up})})});
  }
  std::erase_if(figures.values, [](const auto& value) { return value.readers.empty(); });
  return CostGraph(std::move(figures));
}

void measure(const CostGraph& graph, const std::string& name, int workers,
             std::optional<int64_t> memory) {
  const auto start = std::chrono::steady_clock::now();
  const auto answer = partitioner::plan_graph(graph, {workers, memory});
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (const auto* no = std::get_if<partitioner::Infeasible>(&answer)) {
    std::printf("%-32s %8d %3d  %-28s %40.3f s\n", name.c_str(), graph.size(), workers,
                no->smallest_change.c_str(), seconds);
    return;
  }
  const auto& plan = std::get<GraphPlan>(answer);
  std::printf("%-32s %8d %3d  %12.4f %s  %8.4f  %14.0f  %-7s %9.3f s\n", name.c_str(), graph.size(),
              workers, plan.bottleneck, graph.unit().c_str(), plan.bottleneck / plan.bound.value,
              plan.cut_bytes, plan.acyclic ? "acyclic" : "CYCLIC", seconds);
}

void measure_file(const std::string& format, const std::filesystem::path& file, int workers) {
  const std::string text = runtime::read_file(file);
  const auto read = partitioner::find_graph_format(format).read(text, file.filename().string());
  measure(read.graph, file.stem().string(), workers, read.memory);
}

void measure_data() {
  std::filesystem::path folder = KERF_SOURCE_DIR;
  while (folder != folder.root_path() && !std::filesystem::is_directory(folder / "shared" / "data"))
    folder = folder.parent_path();
  const auto data = folder / "shared" / "data";
  if (!std::filesystem::is_directory(data)) {
    std::printf("there is no shared/data above %s: synthetic graphs only\n", KERF_SOURCE_DIR);
    return;
  }
  measure_file("placement", data / "placement" / "layer_bert24_inference.json", 6);
  measure_file("placement", data / "placement" / "layer_resnet50_training.json", 6);
  measure_file("placement", data / "placement" / "layer_gnmt_training.json", 6);
  measure_file("placement", data / "placement" / "op_bert_l-6_training.json", 3);
  for (const char* name : {"vgg16.txt", "resnet50.txt", "gnmt.txt"})
    for (const int workers : {2, 4, 8})
      measure_file("pipedream", data / "pipedream" / name, workers);
}

// No step but the search may take more than n log n: a chain twice as long takes little more than
// twice the time.
void measure_models() {
  std::printf("\n%-32s %8s %3s  %11s\n", "model", "nodes", "k", "make_plan");
  for (const int workers : {4, 64})
    for (const size_t layers : {2'500, 5'000, 10'000}) {
      const partitioner::Model model =
          partitioner::make_zoo_model("mlp", {std::vector<int64_t>(layers + 1, 8)});
      partitioner::PlanRequest request;
      request.workers = workers;
      request.batch = 64;
      request.micro_batches = 8;
      const auto start = std::chrono::steady_clock::now();
      const auto plan = partitioner::make_plan(model, request, *partitioner::hold_everything());
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      KERF_CHECK(std::holds_alternative<partitioner::Plan>(plan), "no cap, and yet no plan");
      std::printf("%-32s %8d %3d  %9.3f s\n", model.name().c_str(), model.nodes(), workers,
                  seconds);
    }
}

int run(int argc, char** argv) {
  std::printf("%-32s %8s %3s  %15s  %8s  %14s  %-7s %11s\n", "graph", "nodes", "k", "bottleneck",
              "of bound", "cut bytes", "stages", "planning");
  if (argc == 4) {
    measure_file(argv[1], argv[2], std::atoi(argv[3]));
    return 0;
  }
  measure_data();
  for (const int operators : {1'000, 10'000, 100'000}) {
    const CostGraph graph = transformer(operators);
    measure(graph, graph.name(), 8, std::nullopt);
    // A cap that binds, and one that nothing meets.
    const auto free = std::get<GraphPlan>(partitioner::plan_graph(graph, {8, std::nullopt}));
    double most = 0;
    for (const auto& stage : free.stages) most = std::max(most, stage.memory);
    measure(graph, graph.name() + ", capped", 8, static_cast<int64_t>(most * 0.9999));
    measure(graph, graph.name() + ", too little memory", 8, static_cast<int64_t>(most * 0.5));
  }
  measure_models();
  return 0;
}

}  // namespace
}  // namespace kerf

int main(int argc, char** argv) {
  try {
    return kerf::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "planner: %s\n", error.what());
    return 1;
  }
}
