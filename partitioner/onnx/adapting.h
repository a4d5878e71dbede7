// What translations of nodes are written with: for adapt.cc and the tables beside it. Pure values.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/onnx/adapt.h"
#include "runtime/error.h"

namespace kerf::partitioner::onnx {

// A node of an older opset, or of an operator that others stand for.
struct Older {
  GraphNode node;
  int opset;
  const SpecOfInput& spec_of;
  const std::set<std::string>& taken;  // names of the file's

  bool has(const std::string& attribute) const { return node.attributes.contains(attribute); }
  bool has_input(size_t input) const {
    return input < node.inputs.size() && !node.inputs[input].empty();
  }
  // Its name. Refused as its spec is where it is not there.
  const std::string& input(size_t number) const {
    spec_of(number);
    return node.inputs[number];
  }
  ops::Shape shape_of(size_t input) const { return spec_of(input).shape; }
  int64_t taken_int(const std::string& attribute, int64_t otherwise) {
    const int64_t value = ops::attribute_int(node.attributes, attribute, otherwise);
    node.attributes.erase(attribute);
    return value;
  }
  // A value between two of the nodes that stand for this one, and the node that gives it.
  std::string inner(const std::string& what) const {
    return free_name(node.name + "." + what, taken);
  }
};

using Adapted = std::vector<GraphNode>;
using Adapt = std::function<Adapted(Older)>;
using AdaptRows = std::map<std::string, Adapt>;

[[noreturn]] inline void no_meaning(const std::string& why) { throw Error(ErrorCode::kUsage, why); }

// Nodes that stand for one, each of one output, made one after another.
class NodeChain {
 public:
  explicit NodeChain(const Older& older) : older_(older) {}

  // What the node gives: named after it and its place, or as said.
  std::string add(const std::string& op, std::vector<std::string> inputs,
                  ops::Attributes attributes = {}, std::string output = {}) {
    const std::string name = older_.inner(std::to_string(nodes_.size()));
    if (output.empty()) output = name;
    nodes_.push_back({name, op, std::move(attributes), std::move(inputs), {output}});
    return output;
  }
  void add(GraphNode node) { nodes_.push_back(std::move(node)); }
  // A constant of so many elements, at most 2^24, that are all this number.
  std::string filled(const ops::Shape& shape, float number);
  // The last gives what the older node gave, and has its name.
  Adapted end() {
    nodes_.back().outputs = {older_.node.outputs.at(0)};
    nodes_.back().name = older_.node.name;
    return std::move(nodes_);
  }
  Adapted take() { return std::move(nodes_); }

 private:
  const Older& older_;
  Adapted nodes_;
};

// Operators of quantized numbers, as others compute them (adapt_quantized.cc); and those that newer
// ones stand for (adapt_expanded.cc).
const AdaptRows& quantized_rows();
const AdaptRows& expanded_rows();

}  // namespace kerf::partitioner::onnx
