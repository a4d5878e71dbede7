// Rewrites: a node becomes a subgraph that divides where the node itself must be whole.
//
//   loss = SoftmaxCrossEntropyLoss      per segment of the classes a log-sum-exp, then their sum
//   y = Softmax                         per segment a log-sum-exp, then of them all
//   ln = LayerNormalization             sums, then centred squares, over all shares of a row
//   bn = BatchNormalization, training   sums, then centred squares, over all shares of the batch
//   lstm = LSTM, GRU, RNN               a cell a step, which reads everybody's units of the last
//
// A person divides the node as it was read; the row that rewrites it divides the pieces. The last
// piece has the node's name, so its first output keeps its own, and parameters, states, inputs and
// labels keep theirs: weights files and reports stay the same. A rewrite is one file in rewrites/
// and one row of the table in rewrites/table.cc. Pure functions.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/connector.h"
#include "partitioner/model.h"
#include "runtime/json.h"

namespace kerf::partitioner {

// Divisions of pieces, by their names.
using DividedPieces = std::map<std::string, ops::Layout>;

struct RewriteRow {
  std::string_view name;
  std::string_view help;  // one line
  std::string_view op;    // of the nodes that it replaces
  // Whether the pieces divide this axis, which the node needs whole.
  bool (*divides)(const ops::IterationAxis& axis) = nullptr;
  // Whether a node that the file of shares does not list is rewritten to follow its input.
  bool follows = false;
  // What a division of the node asks of the pieces, beside its name; kept by plans.
  std::vector<int64_t> (*numbers)(const Node& node, const ops::Layout& division,
                                  int64_t largest) = nullptr;
  // Adds the pieces, and returns what stands for the node's outputs, as many as are read. Throws
  // Error{kUsage} for numbers that are none of this node.
  std::vector<ValueId> (*replace)(const Node& node, const std::vector<ValueId>& inputs,
                                  const std::vector<int64_t>& numbers, Model& to) = nullptr;
  DividedPieces (*divide)(const Node& node, const std::vector<int64_t>& numbers,
                          const ops::Layout& division, int64_t largest) = nullptr;
  // Numbers that a part sends for all that it has of one row (of classes, features, a channel's
  // elements): a cut that divides by itself rewrites where they are fewer than those of the row.
  int64_t exchanged = 1;
  // Which nodes of the operator can be replaced; null: all.
  bool (*takes)(const Node& node) = nullptr;
};

std::span<const RewriteRow> rewrites();
RewriteRow split_cross_entropy();
RewriteRow split_layer_norm();
RewriteRow split_rms_norm();
RewriteRow split_softmax();
RewriteRow split_log_softmax();
RewriteRow sync_batch_norm();
RewriteRow unroll_lstm();
RewriteRow unroll_gru();
RewriteRow unroll_rnn();

// The row of this name. Throws Error{kUsage} that lists the names.
const RewriteRow& find_rewrite(const std::string& name);
// The node's iterations where rewrites count as what it can divide.
ops::IterationSpace space_with_rewrites(const Node& node);
// The row that a division needs: it divides an axis that the node needs whole. Null if it needs
// none, or none would help.
const RewriteRow* rewrite_needed(const Node& node, const ops::Layout& division, int64_t largest);

// Those that divisions need, by node; empty where nothing is said of it.
std::vector<Rewrite> rewrites_needed(const Model& model,
                                     const std::vector<std::optional<ops::Layout>>& divisions,
                                     int64_t largest);

// The model with these nodes rewritten, which remembers both; the model itself if there are none.
// Throws Error{kUsage} that names what cannot be.
Model rewritten(const Model& model, const std::vector<Rewrite>& rewrites);
// Divisions of the rewritten model's nodes from those of its original's; empty where nothing says.
std::vector<std::optional<ops::Layout>> divide_pieces(
    const Model& model, const std::vector<std::optional<ops::Layout>>& of_original,
    int64_t largest);

// Those that a plan's text names; none if it names none. A look at a text that is not trusted yet.
std::vector<Rewrite> rewrites_in(const Json& plan, const std::string& origin);
std::vector<Rewrite> rewrites_of_plan(const std::string& text, const std::string& origin);

}  // namespace kerf::partitioner
