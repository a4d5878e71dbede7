// The model: a DAG of operators whose edges are tensors.
//
// Nodes live in a mutable Boost.Graph adjacency list (vertex = node, edge = a tensor from producer
// to consumer); values (inputs, labels, parameters, activations) are numbered beside it. Nodes are
// added in topological order, which is the *model order*: everything whose order matters (sums of
// gradients, random numbers) follows it. A Model is a plain copyable value; no threads.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/initializer.h"
#include "ops/operator.h"
#include "partitioner/contents.h"
#include "partitioner/stored_form.h"

namespace kerf::partitioner {

using NodeId = int;
using ValueId = int;

using ops::Role;

struct Value {
  std::string name;
  ops::ValueSpec spec;
  Role role = Role::kActivation;
  NodeId producer = -1;               // of an activation
  int output = 0;                     // of its producer
  ops::Initializer initializer = {};  // of a parameter or state
  uint32_t parameter = 0;             // number of what is_kept(), in model order
  std::shared_ptr<const ops::TensorLiteral> literal = nullptr;  // of a constant
  std::shared_ptr<const Contents> contents = nullptr;  // before `initializer`, where there are
  bool derived = false;  // files of weights may lack it, and `contents` stand
  std::shared_ptr<const StoredForm> stored = nullptr;  // null: files have it as it is
};

struct Node {
  std::string name;
  std::string op;
  ops::Attributes attributes;
  std::vector<ValueId> inputs;  // -1: absent
  std::vector<ValueId> outputs = {};
  std::shared_ptr<const ops::BoundOperator> bound = nullptr;
  uint32_t key = 0;  // of its random numbers: its number in the model before any rewrite
};

// One node that became a subgraph (rewrite.h): by which row of the table, and its numbers.
struct Rewrite {
  std::string name;
  std::string node;
  std::vector<int64_t> numbers = {};
  bool operator==(const Rewrite&) const = default;
};

struct Edge {
  ValueId value = -1;
  int input = 0;  // of the consumer
};

// What a model gives, by a name of its own: its answers, or what they are before a loss.
struct Result {
  std::string name;
  ValueId value = -1;
};

struct Use {
  NodeId node = -1;
  int input = 0;
  bool operator==(const Use&) const = default;
};

class Model {
 public:
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Node, Edge>;
  using FrozenGraph = boost::compressed_sparse_row_graph<boost::bidirectionalS>;

  explicit Model(std::string name = {}) : name_(std::move(name)) {}

  // Names are unique; each throws Error{kUsage} that names model, node and what is wrong.
  ValueId add_input(const std::string& name, const ops::ValueSpec& spec);
  ValueId add_label(const std::string& name, const ops::ValueSpec& spec);
  // `role`: kParameter, kFrozen or kState.
  ValueId add_parameter(const std::string& name, const ops::ValueSpec& spec,
                        const ops::Initializer& initializer, Role role = Role::kParameter);
  ValueId add_constant(const std::string& name, ops::TensorLiteral literal);
  // What it holds at first, instead of what its initializer makes. `derived`: files of weights may
  // lack them: they were computed of weights, or are the program's own numbers.
  void set_contents(ValueId id, std::shared_ptr<const Contents> contents, bool derived = false);
  // How files of weights have it.
  void set_stored(ValueId id, std::shared_ptr<const StoredForm> form);
  // What is added next need have no batch: the whole input is one sample, and so is what is
  // computed of it. Such a model is computed node by node only; no plan has a place for it.
  void take_whole_inputs() { whole_inputs_ = true; }
  bool has_whole_inputs() const { return whole_inputs_; }
  // Of a model whose files name what it gives.
  void add_result(const std::string& name, ValueId value) { results_.push_back({name, value}); }
  // The same input, label, parameter, state or constant as another model has.
  ValueId add_copy(const Value& value);
  // Binds the operator, which infers the outputs' shapes. Inputs of -1 are absent. The outputs are
  // named "NODE.output", "NODE.output2", ...
  NodeId add_node(const std::string& name, const std::string& op, const ops::Attributes& attributes,
                  const std::vector<ValueId>& inputs, int outputs = 1);
  // Of what rewrites nodes (rewrite.h): random numbers stay those of the model before.
  void set_key(NodeId id, uint32_t key) { graph_[static_cast<size_t>(id)].key = key; }
  void set_original(std::shared_ptr<const Model> original, std::vector<Rewrite> rewrites) {
    original_ = std::move(original);
    rewrites_ = std::move(rewrites);
  }

  const std::string& name() const { return name_; }
  // The model before rewrites, null if there were none; and those, in model order.
  const Model* original() const { return original_.get(); }
  const Model& as_read() const { return original_ ? *original_ : *this; }
  const std::vector<Rewrite>& rewrites() const { return rewrites_; }
  int nodes() const { return static_cast<int>(boost::num_vertices(graph_)); }
  int values() const { return static_cast<int>(values_.size()); }
  const Node& node(NodeId id) const { return graph_[static_cast<size_t>(id)]; }
  const ops::BoundOperator& op(NodeId id) const { return *node(id).bound; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  // In model order.
  const std::vector<Use>& uses(ValueId id) const { return uses_[static_cast<size_t>(id)]; }
  // -1 if there is none of that name.
  ValueId find_value(const std::string& name) const;
  NodeId find_node(const std::string& name) const;
  // The loss node (the one operator that is_loss()), -1 if none; scores are its input 0.
  NodeId loss() const { return loss_; }
  // Whether it is a parameter, or an activation with one upstream. gradients.h says which of these
  // have a gradient: those that reach the loss, too.
  bool needs_gradient(ValueId id) const { return trained_[static_cast<size_t>(id)]; }
  std::vector<ValueId> parameters() const;
  // As add_result() said; else what nobody reads, by name of value.
  std::vector<Result> results() const;
  bool names_results() const { return !results_.empty(); }
  // All that workers keep from step to step: parameters, frozen ones, constants, states.
  std::vector<ValueId> kept_values() const;
  const Graph& graph() const { return graph_; }
  FrozenGraph freeze() const;

  // 16 hexadecimal digits over everything that decides what is computed.
  std::string fingerprint() const;
  // Throws Error{kUsage} unless there is at least one node, at most one loss, and all else is used:
  // every input, label and parameter, and where there is a loss every node's first output but it;
  // of nodes whose outputs are equals, any.
  void check() const;

 private:
  ValueId add_value(Value value, bool trained);
  ops::NodeFacts facts_of(const std::string& where, const ops::Attributes& attributes,
                          const std::vector<ValueId>& inputs, int outputs) const;
  // Inputs and labels: a batch of rows that are not empty.
  void check_fed(const std::string& what, const ops::Shape& shape) const;
  // Whether no node reads what it gives, where other outputs count only beside the first.
  bool is_unread(NodeId id) const;
  [[noreturn]] void fail(const std::string& what, const std::string& reason) const;

  std::string name_;
  Graph graph_;
  std::vector<Value> values_;
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> trained_;  // needs_gradient, by value
  std::map<std::string, NodeId> node_names_;
  std::map<std::string, ValueId> value_names_;
  uint32_t parameters_ = 0;
  NodeId loss_ = -1;  // the first
  bool whole_inputs_ = false;
  std::vector<Result> results_;
  std::shared_ptr<const Model> original_;
  std::vector<Rewrite> rewrites_;
};

}  // namespace kerf::partitioner
