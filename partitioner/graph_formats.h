// Graphs of other tools as cost graphs: one file in formats/ and one row of its table each.
//
// Readers are strict: an error names the file, the line or the path in it, and the node. A file is
// hostile until it was read.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "partitioner/cost_graph.h"

namespace kerf::partitioner {

struct ReadGraph {
  CostGraph graph;
  std::optional<int> devices;     // that the file is for
  int hosts = 0;                  // beside them: devices of the graph's second type
  std::optional<int64_t> memory;  // bytes of each
};

struct GraphFormat {
  std::string_view name;
  std::string_view help;  // one line
  // Throws Error{kUsage}. `origin`: the file's name.
  ReadGraph (*read)(const std::string& text, const std::string& origin);
};
std::span<const GraphFormat> graph_formats();
// Throws Error{kUsage} that lists those there are.
const GraphFormat& find_graph_format(const std::string& name);

// The device-placement benchmark of Tarnawski et al. 2020 (msr-fiddle/dnn-partitioning): JSON.
// A device's load is the sum of its nodes' fpgaLatency and of the cost of each distinct tensor that
// leaves or enters it (cpuLatency on its hosts, the second device type); a colorClass stays
// together; backward nodes are nodes of their own.
ReadGraph read_placement(const std::string& text, const std::string& origin);
// Profiles of PipeDream (Narayanan et al. 2019, msr-fiddle/pipedream): text. Milliseconds; a stage
// computes both ways, and the file says nothing of links, so that bytes on them cost no time.
ReadGraph read_pipedream(const std::string& text, const std::string& origin);

}  // namespace kerf::partitioner
