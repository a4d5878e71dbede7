// Makes a model of a graph, node by node. Used by one thread, once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partitioner/onnx/evaluate.h"
#include "partitioner/onnx/import.h"
#include "partitioner/onnx/known.h"

namespace kerf::partitioner::onnx {

class Importer {
 public:
  // Both outlive this.
  Importer(const Graph& graph, const ImportOptions& options);

  Imported import();

 private:
  [[noreturn]] void refuse(const std::string& why, const std::string& where = {}) const;
  void note(const std::string& text);

  // ---- importer.cc: inputs, results
  void add_initializers();
  void add_inputs();
  ops::Shape shape_of_input(const GraphInput& input);
  void find_batch();
  void add_results();
  void add_loss();
  void check_all_fit() const;
  std::string some_weights() const;

  // ---- importer_nodes.cc: nodes, in the newest meaning
  void add(const GraphNode& node);
  void add_newest(GraphNode node, int opset);
  std::string hint_on_batch(const std::string& complaint) const;
  GraphNode as_read(GraphNode node) const;
  void check_zeros(GraphNode& node);
  void add_node(GraphNode node);
  // The known ways in which a node becomes no node.
  bool pass_through(const GraphNode& node);
  bool fold_facts(const GraphNode& node);
  bool fold_integers(const GraphNode& node);
  bool view_constant(const GraphNode& node);
  bool fold_sequence(const GraphNode& node);
  bool evaluate_constant(const GraphNode& node);
  // How files of weights have a constant that is another in another shape, or turned over; null:
  // as it is then.
  std::shared_ptr<const StoredForm> stored_viewed(const Fixed& from);
  std::shared_ptr<const StoredForm> stored_turned_of(const Fixed& from, const GraphNode& transpose);
  // Inputs that are attributes of Kerf's.
  void take_input_attributes(const ops::OperatorDefinition& definition, GraphNode& node);
  ops::Attribute attribute_of(const ops::OperatorDefinition& definition,
                              const ops::InputAttribute& place, const GraphNode& node,
                              const std::string& input);
  double ratio_of(const GraphNode& dropout) const;
  void take_dropout_ratio(GraphNode& node);
  std::vector<int64_t> ints_for(const GraphNode& node, const std::string& attribute,
                                const Integers& integers);

  // ---- importer_values.cc
  const Known& known(const std::string& name) const;
  void set(const std::string& name, Known value);
  ops::ValueSpec spec_of(const std::string& name) const;  // symbolic where it counts samples
  ops::Shape shape_of(const std::string& name) const { return spec_of(name).shape; }
  bool is_constant(const std::string& name) const;
  std::optional<Integers> integers(const std::string& name) const;
  ops::TensorLiteral literal(const std::string& name, size_t most_bytes) const;
  // In the model, where it becomes a constant or a parameter at its first use.
  ValueId in_model(const std::string& name);
  ValueId add_fixed(const std::string& name, const Fixed& fixed);
  bool is_trained(const std::string& name, const Fixed& fixed);
  // Whether its own name, or what files of weights call it, fits one of the patterns.
  bool fits(const Fixed& fixed, const std::vector<std::string>& patterns);

  const Graph& graph_;
  const ImportOptions& options_;
  Imported result_;
  std::map<std::string, Known> known_;
  std::map<std::string, ValueId> in_model_;  // of constants, by the name that they have there
  std::set<std::string> states_;             // of batch normalisations that train
  std::set<std::string> weights_;            // names of values in places of weights
  std::set<std::string> read_;               // of values that a node reads, or the graph gives
  std::optional<int64_t> fixed_batch_;       // what the file says of it, where it is a number
  std::set<std::string> used_dims_;
  std::set<std::string> fitting_;  // patterns that a name fits
  std::unique_ptr<Evaluator> evaluator_;
};

}  // namespace kerf::partitioner::onnx
