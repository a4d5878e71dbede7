// What the readers of graphs share: names of nodes, sums of edges, figures within bounds.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "partitioner/cost_graph.h"

namespace kerf::partitioner {

// Beyond any use. No more bytes than kMostBytes are in a graph, all together, so that sums of them
// lose no whole numbers.
inline constexpr double kMostFigure = 1e15;
inline constexpr double kMostBytes = 9e15;

// Throws Error{kUsage, where} unless `figure` is a number from 0 to kMostFigure.
double checked_figure(double figure, const std::string& what, const std::string& where);

// Collects nodes and edges under the file's own keys.
class NamedNodes {
 public:
  explicit NamedNodes(std::string origin) : origin_(std::move(origin)) {}

  // Throws where the key or the name was there before. Returns the node's number.
  int add(const std::string& key, CostNode node, const std::string& where);
  // -1 if there is none.
  int find(const std::string& key) const;
  int size() const { return static_cast<int>(nodes_.size()); }
  CostNode& node(int number) { return nodes_[static_cast<size_t>(number)]; }

  // The tensor that `from` makes is read by `to`, too.
  void connect(int from, int to);
  // Readers of each node's tensor, ascending, each once.
  std::vector<std::vector<int>> readers() const;

  std::vector<CostNode> take() { return std::move(nodes_); }

 private:
  std::string origin_;
  std::vector<CostNode> nodes_;
  std::unordered_map<std::string, int> by_key_;
  std::unordered_map<std::string, int> by_name_;
  std::vector<std::pair<int, int>> edges_;
};

// Throws Error{kUsage, origin} that names nodes of a cycle, or says that there are no nodes or too
// many bytes.
CostGraph checked_graph(CostFigures figures, const std::string& origin);

}  // namespace kerf::partitioner
