#include "partitioner/formats/named_nodes.h"

#include <algorithm>
#include <cmath>

#include "runtime/error.h"

namespace kerf::partitioner {

namespace {

constexpr size_t kMostNamed = 8;  // nodes of a cycle in a message

}  // namespace

double checked_figure(double figure, const std::string& what, const std::string& where) {
  if (std::isfinite(figure) && figure >= 0 && figure <= kMostFigure) return figure;
  throw Error(ErrorCode::kUsage, format("{} {} is not within 0 and {}", what, figure, kMostFigure),
              where);
}

int NamedNodes::add(const std::string& key, CostNode node, const std::string& where) {
  if (!by_key_.emplace(key, size()).second || !by_name_.emplace(node.name, size()).second)
    throw Error(ErrorCode::kUsage, format("node \"{}\" is there twice", node.name), where);
  nodes_.push_back(std::move(node));
  return size() - 1;
}

int NamedNodes::find(const std::string& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? -1 : found->second;
}

void NamedNodes::connect(int from, int to) { edges_.emplace_back(from, to); }

std::vector<std::vector<int>> NamedNodes::readers() const {
  std::vector<std::vector<int>> result(nodes_.size());
  for (const auto& [from, to] : edges_) result[static_cast<size_t>(from)].push_back(to);
  for (std::vector<int>& readers : result) {
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  }
  return result;
}

namespace {

// Of what is sent at most, and of what is held.
void check_bytes(const CostFigures& figures, const std::string& origin) {
  double sent = 0;
  for (const CostValue& value : figures.values) {
    const auto times = static_cast<double>(value.readers.size() + value.returns.size());
    sent += times * (value.bytes + value.forward_bytes);
  }
  double held = 0;
  for (const Held& each : figures.held) held += each.fixed + each.per_micro_batch;
  for (const auto& [what, bytes] :
       {std::pair("what its values send", sent), {"what it holds", held}})
    if (bytes > kMostBytes)
      throw Error(ErrorCode::kUsage,
                  format("{} comes to {:.3g} bytes, more than {:.0g}", what, bytes, kMostBytes),
                  origin);
}

}  // namespace

CostGraph checked_graph(CostFigures figures, const std::string& origin) {
  if (figures.nodes.empty()) throw Error(ErrorCode::kUsage, "it has no nodes", origin);
  check_bytes(figures, origin);
  CostGraph graph(std::move(figures));
  const std::vector<int> cycle = graph.cycle();
  if (cycle.empty()) return graph;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(cycle.size(), kMostNamed); ++i)
    names.push_back(graph.node(cycle[i]).name);
  throw Error(ErrorCode::kUsage,
              format("its edges have a cycle through {}{}", fmt::join(names, ", "),
                     cycle.size() > kMostNamed ? format(" and {} more", cycle.size() - kMostNamed)
                                               : std::string()),
              origin);
}

}  // namespace kerf::partitioner
