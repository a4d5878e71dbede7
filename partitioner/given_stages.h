// Stages that were decided elsewhere: which node goes to which, as a file says it, by the names of
// the nodes of any graph.
//
//   {"conv1": 0, "relu1": 0, "fc1": 1}      or what --json prints: {..., "assignment": {...}}
//
// A file is hostile until it was read. Pure functions.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "partitioner/cost_graph.h"

namespace kerf::partitioner {

using NamedStages = std::unordered_map<std::string, int>;

// Throws Error{kUsage, origin} unless it is an object of whole numbers from 0.
NamedStages read_stages(const std::string& text, const std::string& origin);

struct GivenStages {
  std::vector<int> stage_of;  // by node
  int stages = 0;
  std::string unsound;  // why it is no cut of the graph; empty: it is one
};

// A cut has every node of the graph and no other, stages from 0 without a gap, nodes of one colour
// in one stage, and no cycle among the stages of either half.
GivenStages stages_of_names(const CostGraph& graph, const NamedStages& named);

// Stages numbered so that none feeds one before it: by stage. Only of sound ones, of graphs
// without backward nodes.
std::vector<int> in_running_order(const CostGraph& graph, const GivenStages& given);

}  // namespace kerf::partitioner
