// The cost graph: all that planners know of what they cut. A model becomes one, and so does a graph
// of another tool that is no model.
//
//   node    one operator: work per device type, forward and backward; a colour (nodes of one
//           colour share a stage); its half (a backward node of its own, in some tools' graphs)
//   value   one tensor: who makes it, who reads it, what it costs a stage to receive or to send it.
//           However many edges carry it, it counts once per stage
//   held    memory that a stage takes once if it has any of some nodes: a parameter of several
//           users, an activation that several gradients will read
//
// Work and times are in the graph's own unit ("s", "ms", "FLOP"). A plain copyable value; its edges
// lie in compressed rows (Boost.Graph). No threads.
#pragma once

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kerf::partitioner {

struct CostNode {
  std::string name;
  int colour = -1;  // -1: none
  bool backward = false;
};

struct Work {
  double forward = 0;
  double backward = 0;
  double total() const { return forward + backward; }
};

struct CostValue {
  int producer = -1;
  std::vector<int> readers;  // ascending, each once
  double bytes = 0;          // per step and stage that reads it, its gradient included
  double forward_bytes = 0;  // without its gradient
  double enter = 0;          // time of a stage that receives it (and returns its gradient)
  double leave = 0;          // time of a stage that sends it, to however many
  // What each tensor of its gradient takes beyond the first, which is in `bytes` and `enter`. The
  // summands are added in a fixed order, the reverse of `returns` (readers, one for each use), and
  // a sum on its way goes towards the maker: a stage returns one tensor for all that it adds before
  // an earlier stage does, and one for each use behind.
  double returned_bytes = 0;
  double returning = 0;
  std::vector<int> returns = {};
};

struct Held {
  std::vector<int> nodes;
  double fixed = 0;            // bytes
  double per_micro_batch = 0;  // bytes for each micro-batch in flight
};

// What a graph is made of.
struct CostFigures {
  std::string name;
  std::string unit = "s";
  std::vector<CostNode> nodes;
  std::vector<std::vector<Work>> work;  // [device type][node]; at least one type
  std::vector<CostValue> values;
  std::vector<Held> held;
  // Pairs that a boundary between stages avoids where that costs no time.
  std::vector<std::pair<int, int>> close;
};

struct CostEdge {
  int value = -1;
};

class CostGraph {
 public:
  using Rows =
      boost::compressed_sparse_row_graph<boost::bidirectionalS, boost::no_property, CostEdge>;

  explicit CostGraph(CostFigures figures);

  const std::string& name() const { return figures_.name; }
  const std::string& unit() const { return figures_.unit; }
  int size() const { return static_cast<int>(figures_.nodes.size()); }
  int device_types() const { return static_cast<int>(figures_.work.size()); }
  const CostNode& node(int id) const { return figures_.nodes[static_cast<size_t>(id)]; }
  const Work& work(int type, int node) const {
    return figures_.work[static_cast<size_t>(type)][static_cast<size_t>(node)];
  }
  const std::vector<CostValue>& values() const { return figures_.values; }
  const std::vector<Held>& held() const { return figures_.held; }
  const std::vector<std::pair<int, int>>& close() const { return figures_.close; }
  bool has_backward() const;                  // nodes
  const Rows& rows() const { return rows_; }  // producer -> reader, with the value

  // The nodes of one cycle's strong component, ascending; empty if there is none.
  std::vector<int> cycle() const;

 private:
  CostFigures figures_;
  Rows rows_;
};

using Edges = std::vector<std::pair<int, int>>;

// The strong component of each vertex, numbered against the edges (Tarjan 1972, by Boost.Graph).
std::vector<int> strong_components(int vertices, const Edges& edges);
// Whether the edges, pairs of numbers below `vertices`, form no cycle.
bool is_acyclic(int vertices, const Edges& edges);

// Looks at a division alone, however it was found: whether the graph of stages is acyclic, that of
// the forward nodes and that of the backward nodes each. `stage_of`: by node.
bool has_acyclic_stages(const CostGraph& graph, const std::vector<int>& stage_of, int stages);
// Forward bytes of one step: each distinct (value, stage that reads it and does not make it) once.
double cut_bytes(const CostGraph& graph, const std::vector<int>& stage_of);

}  // namespace kerf::partitioner
