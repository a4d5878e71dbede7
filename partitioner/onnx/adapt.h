// Older meanings of operators, told in the newest: Kerf's nodes know no other. Pure functions.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "partitioner/onnx/graph.h"

namespace kerf::partitioner::onnx {

// Type and shape of a node's input, by its place; symbolic where it counts samples.
using SpecOfInput = std::function<ops::ValueSpec(size_t input)>;

// What stands for a node of that opset: itself, or nodes of which the last gives its outputs. Names
// that it adds begin with the node's, and are none of the taken. Throws Error{kUsage} without a
// place for what has no meaning here.
std::vector<GraphNode> adapted(GraphNode node, int opset, const SpecOfInput& spec_of,
                               const std::set<std::string>& taken);
// Whether every meaning that the operator had is known there.
bool is_adapted(const std::string& op);

}  // namespace kerf::partitioner::onnx
