// Makes a model of a graph, node by node. Used by one thread, once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partitioner/onnx/budget.h"
#include "partitioner/onnx/evaluate.h"
#include "partitioner/onnx/import.h"
#include "partitioner/onnx/known.h"
#include "partitioner/onnx/weight_places.h"

namespace kerf::partitioner::onnx {

class Importer {
 public:
  // All outlive this.
  Importer(const Graph& graph, const ImportOptions& options, Budget& budget);

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
  void list_folded();
  void list_computed();
  void note_collected();
  void note_untrained();
  std::string some_weights() const;

  // ---- importer_nodes.cc: nodes, in the newest meaning
  void add(const GraphNode& node);
  void add_newest(GraphNode node, int opset);
  std::string hint_on_batch(const std::string& complaint) const;
  std::string way_out_of_batch() const;
  GraphNode as_read(GraphNode node) const;
  void check_zeros(GraphNode& node);
  void add_node(GraphNode node);
  // The known ways in which a node becomes no node.
  bool pass_through(const GraphNode& node);
  bool fold_facts(const GraphNode& node);
  Integers extents_asked(const GraphNode& node) const;  // of a Shape or Size
  void set_filled(const GraphNode& node);               // of a ConstantOfShape
  bool is_small(const GraphNode& node) const;
  bool fold_integers(const GraphNode& node);
  bool view_constant(const GraphNode& node);
  bool expands_nothing(const GraphNode& node, const std::vector<int64_t>& from) const;
  bool fold_sequence(const GraphNode& node);
  bool fold_places(const GraphNode& node);
  bool evaluate_constant(const GraphNode& node);
  // Inputs that are attributes of Kerf's.
  void take_input_attributes(const ops::OperatorDefinition& definition, GraphNode& node);
  ops::Attribute attribute_of(const ops::OperatorDefinition& definition,
                              const ops::InputAttribute& place, const GraphNode& node,
                              const std::string& input);
  double ratio_of(const GraphNode& dropout) const;
  void take_dropout_ratio(GraphNode& node);
  bool ends_with_batch(const GraphNode& node, size_t place, const Affine& end) const;
  bool keeps_samples(const GraphNode& node, const std::string& attribute, size_t place,
                     const Affine& extent) const;
  std::vector<int64_t> ints_for(const GraphNode& node, const std::string& attribute,
                                const Integers& integers);

  // ---- importer_batch.cc: where the batch lies
  // Rows of a constant that a file has for each of its samples.
  struct RowsOf {
    int axis = -1;
    int64_t each = 1;       // for each sample
    int64_t outer = 1;      // of those, before the samples (free_batch.h)
    bool repeated = false;  // where one is for all of them
  };
  int64_t outer_of(ValueId value) const;
  void place_batch(NodeId id);
  ValueId batched_operand(const GraphNode& node) const;
  std::vector<int64_t> free_shape(const GraphNode& reshape,
                                  const std::vector<Affine>& wanted) const;
  void free_constants(GraphNode& node);
  std::optional<GraphNode> as_reshape(const GraphNode& gather) const;
  void free_expanded(GraphNode& node);
  void leave_samples_out(GraphNode& resize) const;
  std::string with_free_rows(const GraphNode& node, const std::string& name, const RowsOf& rows);
  std::optional<std::string> expanded_anew(const GraphNode& node, const std::string& name,
                                           const RowsOf& rows);
  std::string made_of(const GraphNode& node, const std::string& input, const char* op,
                      ops::Attributes attributes);

  // ---- importer_values.cc
  // What is made of a node: nothing of the file is called so.
  std::string inner(const GraphNode& node, const std::string& what) const {
    return free_name(node.name + "." + what, names_);
  }
  const Known& known(const std::string& name) const;
  void set(const std::string& name, Known value);
  // Forgets what only this node read, and what stood between its translations.
  void release(const GraphNode& node);
  ops::ValueSpec spec_of(const std::string& name) const;  // symbolic where it counts samples
  ops::Shape shape_of(const std::string& name) const { return spec_of(name).shape; }
  bool is_constant(const std::string& name) const;
  std::optional<Integers> integers(const std::string& name) const;
  ops::TensorLiteral literal(const std::string& name, size_t most_bytes) const;
  // In the model, where it becomes a constant or a parameter at its first use.
  ValueId in_model(const std::string& name);
  bool is_computed(const GraphNode& node, size_t input) const;  // there, and in the model

  // ---- importer_weights.cc
  static constexpr size_t kMostConstant = size_t{1} << 20;  // bytes that every part may repeat
  void count_readers();
  bool may_be_weight(const Fixed& fixed) const;
  bool is_placed(const std::string& name, const Fixed& fixed);
  std::optional<bool> parameter_in_torch(const Fixed& fixed) const;
  bool is_picked(const Fixed& fixed) const;
  bool is_torch_name(const std::string& name) const;
  // Whether a name that it has fits one of the patterns: its own, that of the file's weight that it
  // is made of, or what files of weights call it.
  bool fits(const Fixed& fixed, const std::vector<std::string>& patterns);
  bool is_trained(const std::string& name, const Fixed& fixed);
  bool may_be_lacked(const Fixed& fixed) const;
  void name_copy(const GraphNode& node, Fixed& fixed);
  // Whether files of weights have a tensor for it: an initializer, or a copy of one.
  bool is_in_file(const std::string& name) const {
    return graph_.initializers.contains(name) || copies_.contains(name);
  }
  const std::string* weight_in(const GraphNode& node) const;
  // How files of weights have a constant that is another in another shape, or turned over; null:
  // as it is then.
  std::shared_ptr<const StoredForm> stored_viewed(const Fixed& from);
  std::shared_ptr<const StoredForm> stored_turned_of(const Fixed& from, const GraphNode& transpose);
  Fixed made_of_weight(const GraphNode& node, size_t output, Fixed made);
  void remember_read(const GraphNode& node);
  // A matrix that begins anew has no numbers yet that could be turned over.
  bool turn_anew(const GraphNode& node);
  bool add_tied_product(const GraphNode& node);
  ValueId add_fixed(const std::string& name, const Fixed& fixed, bool may_train);
  ValueId add_fixed_once(const std::string& name, Fixed fixed);

  const Graph& graph_;
  const ImportOptions& options_;
  const std::set<std::string> names_;  // of the file's values and nodes
  Imported result_;
  std::map<std::string, Known> known_;
  struct InModel {
    ValueId id = -1;
    Fixed fixed;
  };
  std::map<std::string, InModel> in_model_;  // constants, by the name that they have there
  std::set<std::string> statistics_;         // that batch normalisations read
  std::set<std::string> states_;             // of those that train
  std::set<std::string> copies_;             // of initializers, weights of their own (name_copy)
  WeightPlaces weights_;
  std::map<std::string, size_t> torch_places_;  // in the graph's list, by name
  // Nodes are called after their modules, as PyTorch's older exporter has it, which gives its own
  // constants names that no module's have.
  bool says_modules_ = false;
  std::map<std::string, std::shared_ptr<const StoredForm>> forms_;  // torch_names.h
  std::map<std::string, int> readers_;           // of values, the graph's outputs among them
  std::map<std::string, int> left_;              // of those, that are still to come
  std::vector<std::string> between_;             // values that no node of the graph reads
  std::map<std::string, std::string> turned_;    // by name, the matrix that was turned over
  std::map<std::string, std::string> expanded_;  // by name, the constant that was repeated
  std::set<std::string> held_;                   // values of these two
  Budget& budget_;
  std::map<ValueId, int64_t> outer_;    // free_batch.h; 1 of those that are not there
  std::optional<int64_t> fixed_batch_;  // what the file says of it, where it is a number
  std::set<std::string> used_dims_;
  std::set<std::string> fitting_;  // patterns that a name fits
  std::set<std::string> noted_;
  std::vector<std::string> kept_turned_;  // weights whose axes are turned over
  std::vector<std::string> renamed_;      // and what files of weights call some
  std::unique_ptr<Evaluator> evaluator_;
};

}  // namespace kerf::partitioner::onnx
