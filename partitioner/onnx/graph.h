// An ONNX file's graph in Kerf's own types: what is between reading a file and a model.
//
// Nothing here includes protobuf. Values are named by texts, as ONNX has them; weights stay in
// their files. Plain values; no threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ops/attributes.h"
#include "ops/initializer.h"
#include "partitioner/contents.h"

namespace kerf::partitioner::onnx {

// An initializer. Where its element type is one of files only, contents give another: float16,
// bfloat16 and float64 become float32.
struct Stored {
  std::string name;
  ops::ValueSpec spec;  // of the contents
  ops::DType in_file = ops::DType::kFloat32;
  std::shared_ptr<const Contents> contents;
  ops::Initializer initializer = {};  // where there are no contents: it begins anew
};

struct GraphNode {
  std::string name;  // unique: its own, or made of its first output's
  std::string op;
  ops::Attributes attributes;
  std::vector<std::string> inputs;   // empty: absent
  std::vector<std::string> outputs;  // likewise
  // The module that it is of, "encoder.linear1", and the class of that, "torch.nn...linear.Linear",
  // where PyTorch's exporter says so.
  std::string scope = {};
  std::string scope_class = {};
  // The call of PyTorch's that it is a part of, and which of `Graph::torch` that reads, in order.
  std::string call = {};
  std::vector<size_t> call_reads = {};
};

// A tensor of a PyTorch module, by its name there.
struct TorchTensor {
  std::string name;
  bool parameter = false;  // else a buffer, or a constant
  bool saved = true;       // in a state_dict
};

// What a value was computed of when the file was written: places in `Graph::torch`.
struct ComputedOf {
  std::vector<size_t> tensors;
  bool only = false;  // of nothing else that the program has a name for
};

// An axis of an input: so many indices, or as many as a name says.
struct Dimension {
  int64_t extent = -1;  // -1: as `symbol` says, which may be empty
  std::string symbol;
};

struct GraphInput {
  std::string name;
  ops::DType dtype = ops::DType::kFloat32;  // as it is read
  std::vector<Dimension> shape;
  std::optional<ops::DType> in_file = std::nullopt;  // where that is another
};

struct Graph {
  std::string origin;  // the file, for errors
  int opset = 0;
  std::vector<GraphNode> nodes;    // in topological order
  std::vector<GraphInput> inputs;  // that are no initializers
  std::vector<std::string> outputs;
  std::map<std::string, Stored> initializers;
  // Bytes of those that its files have; nothing: as the initializers say.
  std::optional<uint64_t> stored_bytes = std::nullopt;
  bool by_torch = false;                // who wrote the file
  std::vector<TorchTensor> torch = {};  // all that the program had; empty: nothing is said of it
  std::map<std::string, ComputedOf> computed = {};
  // Initializers that the program had otherwise, or several of, though it has their names.
  std::set<std::string> doubtful = {};
  std::set<std::string> lost = {};  // tensors of the program that nothing reads where it did
};

// Throws Error{kUsage}.
[[noreturn]] void refuse(const std::string& why, const std::string& where);

// "FILE: node NAME (OP, opset 9)".
std::string place_of(const Graph& graph, const GraphNode& node);

// Bytes of weights that its files have, or that are in memory.
uint64_t stored_bytes(const Graph& graph);

// Names of all its values and nodes.
std::set<std::string> names_of(const Graph& graph);
// `name`, or where it is taken such a one that is not.
std::string free_name(std::string name, const std::set<std::string>& taken);

// Drops absent outputs at the end, but of an operator to which their number says something.
void drop_absent_outputs(GraphNode& node);

// Puts the nodes in topological order and leaves out what no output needs. Throws Error{kUsage}
// that names the file and the nodes where a value has two producers or none, or a cycle is closed.
void put_in_order(Graph& graph);

}  // namespace kerf::partitioner::onnx
