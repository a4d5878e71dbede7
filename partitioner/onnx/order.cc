#include <algorithm>
#include <queue>
#include <set>

#include "partitioner/onnx/graph.h"
#include "runtime/error.h"

namespace kerf::partitioner::onnx {
namespace {

constexpr size_t kMostNamed = 8;  // nodes of a cycle, in a message

class Sorter {
 public:
  explicit Sorter(Graph& graph) : graph_(graph) {}

  void sort() {
    list_producers();
    mark_needed();
    order();
    forget_unread();
  }

 private:
  void list_producers() {
    for (const GraphInput& input : graph_.inputs) given(input.name, "two inputs");
    for (const auto& [name, stored] : graph_.initializers)
      given(name, "an input and an initializer");
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      for (const std::string& output : graph_.nodes[i].outputs) {
        if (output.empty()) continue;
        if (given_.contains(output) || !producers_.emplace(output, i).second)
          refuse(format("its output {} is given by something else already", output),
                 place_of(graph_, graph_.nodes[i]));
      }
    if (graph_.outputs.empty()) refuse("its graph has no output", graph_.origin);
    for (const std::string& output : graph_.outputs)
      if (!known(output)) refuse(format("nothing gives the output {}", output), graph_.origin);
  }

  void given(const std::string& name, const char* twice) {
    if (!given_.insert(name).second) refuse(format("{} are named {}", twice, name), graph_.origin);
  }

  bool known(const std::string& name) const {
    return given_.contains(name) || producers_.contains(name);
  }

  void mark_needed() {
    needed_.assign(graph_.nodes.size(), false);
    std::vector<size_t> open;
    const auto need = [&](const std::string& name) {
      const auto at = producers_.find(name);
      if (at == producers_.end() || needed_[at->second]) return;
      needed_[at->second] = true;
      open.push_back(at->second);
    };
    for (const std::string& output : graph_.outputs) need(output);
    while (!open.empty()) {
      const GraphNode& node = graph_.nodes[open.back()];
      open.pop_back();
      for (const std::string& input : node.inputs) {
        if (!input.empty() && !known(input))
          refuse(format("nothing gives its input {}", input), place_of(graph_, node));
        need(input);
      }
    }
  }

  // As the file has them, as far as may be.
  void order() {
    std::vector<size_t> awaited(graph_.nodes.size(), 0);
    std::vector<std::vector<size_t>> readers(graph_.nodes.size());
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!needed_[i]) continue;
      for (const std::string& input : graph_.nodes[i].inputs)
        if (const auto at = producers_.find(input); at != producers_.end()) {
          ++awaited[i];
          readers[at->second].push_back(i);
        }
      if (awaited[i] == 0) ready.push(i);
    }
    std::vector<GraphNode> sorted;
    while (!ready.empty()) {
      const size_t next = ready.top();
      ready.pop();
      needed_[next] = false;
      sorted.push_back(std::move(graph_.nodes[next]));
      for (const size_t reader : readers[next])
        if (--awaited[reader] == 0) ready.push(reader);
    }
    check_all_sorted();
    graph_.nodes = std::move(sorted);
  }

  void check_all_sorted() const {
    std::vector<std::string> left;
    for (size_t i = 0; i < graph_.nodes.size() && left.size() < kMostNamed; ++i)
      if (needed_[i]) left.push_back(graph_.nodes[i].name);
    if (!left.empty())
      refuse(format("its nodes form a cycle, in or before {}", fmt::join(left, ", ")),
             graph_.origin);
  }

  // Outputs that nobody reads have no name.
  void forget_unread() {
    std::set<std::string> read(graph_.outputs.begin(), graph_.outputs.end());
    for (const GraphNode& node : graph_.nodes) read.insert(node.inputs.begin(), node.inputs.end());
    for (GraphNode& node : graph_.nodes) {
      for (std::string& output : node.outputs)
        if (!read.contains(output)) output.clear();
      drop_absent_outputs(node);
    }
  }

  Graph& graph_;
  std::set<std::string> given_;  // inputs and initializers
  std::map<std::string, size_t> producers_;
  std::vector<bool> needed_;  // and not in order yet
};

}  // namespace

void refuse(const std::string& why, const std::string& where) {
  throw Error(ErrorCode::kUsage, why, where);
}

std::string place_of(const Graph& graph, const GraphNode& node) {
  return format("{}: node {} ({}, opset {})", graph.origin, node.name, node.op, graph.opset);
}

uint64_t stored_bytes(const Graph& graph) {
  if (graph.stored_bytes) return *graph.stored_bytes;
  uint64_t bytes = 0;
  for (const auto& [name, stored] : graph.initializers) bytes += stored.spec.bytes(0);
  return bytes;
}

std::set<std::string> names_of(const Graph& graph) {
  std::set<std::string> names;
  for (const GraphInput& input : graph.inputs) names.insert(input.name);
  for (const auto& [name, stored] : graph.initializers) names.insert(name);
  for (const GraphNode& node : graph.nodes) {
    names.insert(node.name);
    names.insert(node.outputs.begin(), node.outputs.end());
  }
  return names;
}

std::string free_name(std::string name, const std::set<std::string>& taken) {
  while (taken.contains(name)) name += '\'';
  return name;
}

void drop_absent_outputs(GraphNode& node) {
  if (node.op == "Split") return;  // how many parts there are
  while (!node.outputs.empty() && node.outputs.back().empty()) node.outputs.pop_back();
}

void put_in_order(Graph& graph) { Sorter(graph).sort(); }

}  // namespace kerf::partitioner::onnx
