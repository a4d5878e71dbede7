// Planning alone: how good the layer cut of a graph is, and how long it takes to find: one thread,
// seconds of its processor.
//
//   build/release/bench/planner                  the graphs of shared/data above the sources, where
//                                                they are, and chains of transformer blocks; also
//                                                all of planning for chains of 5,000 to 20,000
//                                                operators: cut, routes, predictions
//   build/release/bench/planner FORMAT FILE K    one graph over K workers
//   build/release/bench/planner --blocks N       N operators of transformer blocks
//   build/release/bench/planner --json           the graphs and the blocks, for programs
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>

#include "partitioner/cut.h"
#include "partitioner/graph_formats.h"
#include "partitioner/graph_plan.h"
#include "partitioner/zoo.h"
#include "runtime/file.h"
#include "runtime/json.h"

namespace kerf {
namespace {

using partitioner::CostFigures;
using partitioner::CostGraph;
using partitioner::GraphPlan;
using partitioner::GraphWorker;

// Blocks of a transformer, end to end:
//
//   x ── norm ──┬── q ──┐                  ┌──────────────────────┐
//    │          ├── k ──┼── mix ── out ── add ── norm ── up ── relu ── down ── add ──
//    │          └── v ──┘                  │
//    └─────────────────────────────────────┘
//
// What they hold grows from the first (half of the mean) to the last (half more): of a division
// that work alone balances the last stage holds most, and a cap trades one for the other.
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
    const double held = bytes * (0.5 + static_cast<double>(node) / operators);
    figures.work[0].push_back({forward, 2 * forward});
    figures.held.push_back({{node}, 4 * held, held});
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

class Planner {
 public:
  explicit Planner(bool json) : json_(json) {
    if (!json_)
      std::printf("%-40s %8s %3s  %15s  %8s  %14s  %-7s %11s\n", "graph", "nodes", "k",
                  "bottleneck", "of bound", "cut bytes", "stages", "planning");
  }
  ~Planner() {
    if (json_) std::printf("%s\n", json_text(rows_, 1).c_str());
  }
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  std::variant<GraphPlan, partitioner::Infeasible> measure(
      const CostGraph& graph, const std::string& name, const partitioner::GraphRequest& request) {
    const std::clock_t start = std::clock();
    auto answer = partitioner::plan_graph(graph, request);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    Json row = {{"graph", name},
                {"nodes", graph.size()},
                {"workers", request.workers},
                {"stages_per_worker", request.stages_per_worker},
                {"hosts", request.hosts},
                {"slack", request.slack},
                {"plan_seconds", seconds}};
    if (const auto* plan = std::get_if<GraphPlan>(&answer)) {
      const bool exact = partitioner::is_exact(plan->bottleneck, plan->bound.value);
      row["bottleneck"] = plan->bottleneck;
      row["unit"] = graph.unit();
      row["lower_bound"] = plan->bound.value;
      row["certificate"] = {{"kind", exact ? "exact" : "bound"}, {"witness", plan->bound.witness}};
      row["cut_bytes"] = plan->cut_bytes;
      row["acyclic"] = plan->acyclic;
    } else {
      row["infeasible"] = std::get<partitioner::Infeasible>(answer).smallest_change;
    }
    if (!json_) print(row);
    rows_.push_back(std::move(row));
    return answer;
  }

 private:
  static void print(const Json& row) {
    const auto name = row["graph"].get<std::string>();
    const int nodes = row["nodes"];
    const int workers = row["workers"];
    const double seconds = row["plan_seconds"];
    if (row.contains("infeasible"))
      std::printf("%-40s %8d %3d  %-28s %40.3f s\n", name.c_str(), nodes, workers,
                  row["infeasible"].get<std::string>().c_str(), seconds);
    else
      std::printf("%-40s %8d %3d  %12.4f %s  %8.4f  %14.0f  %-7s %9.3f s\n", name.c_str(), nodes,
                  workers, row["bottleneck"].get<double>(), row["unit"].get<std::string>().c_str(),
                  row["bottleneck"].get<double>() / row["lower_bound"].get<double>(),
                  row["cut_bytes"].get<double>(), row["acyclic"].get<bool>() ? "acyclic" : "CYCLIC",
                  seconds);
  }

  bool json_;
  Json rows_ = Json::array();
};

void measure_file(Planner& planner, const std::string& kind, const std::filesystem::path& file,
                  partitioner::GraphRequest request) {
  const std::string text = runtime::read_file(file);
  const auto read = partitioner::find_graph_format(kind).read(text, file.filename().string());
  request.memory = read.memory;
  std::string name = file.stem().string();
  if (request.hosts > 0) name += format(", {}", plural(request.hosts, "host"));
  if (request.stages_per_worker > 1)
    name += format(", {} stages a worker", request.stages_per_worker);
  if (request.slack > 0) name += format(", slack {}", request.slack);
  planner.measure(read.graph, name, request);
}

void measure_data(Planner& planner) {
  std::filesystem::path folder = KERF_SOURCE_DIR;
  while (folder != folder.root_path() && !std::filesystem::is_directory(folder / "shared" / "data"))
    folder = folder.parent_path();
  const auto data = folder / "shared" / "data";
  if (!std::filesystem::is_directory(data)) {
    std::fprintf(stderr, "there is no shared/data above %s: synthetic graphs only\n",
                 KERF_SOURCE_DIR);
    return;
  }
  const std::pair<const char*, int> placements[] = {{"layer_bert24_inference.json", 6},
                                                    {"layer_resnet50_training.json", 6},
                                                    {"layer_gnmt_training.json", 6},
                                                    {"op_bert_l-6_training.json", 3}};
  for (const auto& [name, workers] : placements) {
    partitioner::GraphRequest request{workers, std::nullopt};
    measure_file(planner, "placement", data / "placement" / name, request);
    request.hosts = 1;
    measure_file(planner, "placement", data / "placement" / name, request);
    request.hosts = 0;
    request.stages_per_worker = 2;
    measure_file(planner, "placement", data / "placement" / name, request);
  }
  for (const char* name : {"vgg16.txt", "resnet50.txt", "gnmt.txt"})
    for (const int workers : {2, 4, 8})
      for (const double slack : {0.0, 0.1}) {
        partitioner::GraphRequest request{workers, std::nullopt};
        request.slack = slack;
        measure_file(planner, "pipedream", data / "pipedream" / name, request);
      }
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
      const std::clock_t start = std::clock();
      const auto plan = partitioner::make_plan(model, request, *partitioner::hold_everything());
      const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      KERF_CHECK(std::holds_alternative<partitioner::Plan>(plan), "no cap, and yet no plan");
      std::printf("%-32s %8d %3d  %9.3f s\n", model.name().c_str(), model.nodes(), workers,
                  seconds);
    }
}

void measure_blocks(Planner& planner, int operators) {
  const CostGraph graph = transformer(operators);
  constexpr int kWorkers = 8;
  planner.measure(graph, graph.name(), {kWorkers, std::nullopt});
  const auto free = std::get<GraphPlan>(partitioner::plan_graph(graph, {kWorkers, std::nullopt}));
  // Caps that bind: halfway to an even share of all that is held, and the least that is found to
  // do; and caps that nothing meets: half of an even share, and almost enough.
  double all = 0;
  for (const GraphWorker& worker : free.workers) all += worker.memory;
  const double share = all / kWorkers;
  const auto capped = [&](const std::string& how, double cap) {
    const auto whole = static_cast<int64_t>(cap);
    const auto answer = planner.measure(graph, graph.name() + ", " + how, {kWorkers, whole});
    const auto* no = std::get_if<partitioner::Infeasible>(&answer);
    return no == nullptr ? whole : no->cap + no->over;
  };
  capped("capped", (free.memory() + share) / 2);
  const auto least = static_cast<double>(capped("too little memory", share / 2));
  capped("the least memory", least);
  capped("almost enough memory", 0.9999 * least);
}

int run(int argc, char** argv) {
  const bool json = argc == 2 && std::string(argv[1]) == "--json";
  {
    Planner planner(json);
    if (argc == 4) {
      measure_file(planner, argv[1], argv[2], {std::atoi(argv[3]), std::nullopt});
      return 0;
    }
    if (argc == 3 && std::string(argv[1]) == "--blocks") {
      measure_blocks(planner, std::atoi(argv[2]));
      return 0;
    }
    measure_data(planner);
    for (const int operators : {1'000, 10'000, 100'000, 1'000'000})
      measure_blocks(planner, operators);
  }
  if (!json) measure_models();
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
