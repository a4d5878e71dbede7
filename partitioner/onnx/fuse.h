// Fusions: nodes that an exporter wrote for one operator become that operator.
//
//   Mul, Add after a BatchNormalization                 its scale and shift
//   ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div    LayerNormalization
//   Div, Erf, Add, Mul, Mul                             Gelu
//   MatMul, Div, Add, Softmax, MatMul                   Attention, its heads side by side where
//                                                       Reshape and Transpose are around it
//   MatMul, Add of a bias                               Gemm
//
// and, of a model for answers, what follows a convolution becomes a part of it:
//
//   Conv, BatchNormalization, Add, Relu                 FusedConv
//
// A fusion is a rewrite of the uncut model, so that every cut of it computes the same. A pattern is
// one file in patterns/ and one row of the table in fuse.cc. Pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner::onnx {

// Nodes that one node stands for. The last gives what that gives, and its name.
struct Fusion {
  std::vector<NodeId> nodes;  // the last at the end
  std::string op;
  ops::Attributes attributes;
  // Inputs of the model's own; where `made` has something, that instead.
  std::vector<ValueId> inputs;
  struct Made {
    std::string name;
    ops::ValueSpec spec;
    Role role = Role::kParameter;
    std::string bytes;
  };
  std::vector<std::optional<Made>> made = {};
  // Nodes of one input: between input i and the node, and behind it.
  struct Step {
    std::string op;
    ops::Attributes attributes;
  };
  std::map<size_t, std::vector<Step>> before = {};
  std::vector<Step> after = {};
};

// Whether a pattern ends in this node; what lies between is read by nothing else then.
using Pattern = std::optional<Fusion> (*)(const Model& model, NodeId last);
std::optional<Fusion> scale_and_shift(const Model& model, NodeId last);
std::optional<Fusion> layer_normalization(const Model& model, NodeId last);
std::optional<Fusion> gelu(const Model& model, NodeId last);
std::optional<Fusion> attention(const Model& model, NodeId last);
std::optional<Fusion> linear(const Model& model, NodeId last);
// Of an Attention: its heads are read where they lie side by side, and left there.
std::optional<Fusion> attention_heads(const Model& model, NodeId last);
// Of a model for answers: those that end in a Relu, an addition or a normalisation.
std::optional<Fusion> conv_and_relu(const Model& model, NodeId last);
std::optional<Fusion> conv_and_sum(const Model& model, NodeId last);
std::optional<Fusion> conv_and_norm(const Model& model, NodeId last);

// The model with all that is found, and how often each was, as notes.
Model fused(const Model& model, std::vector<std::string>& notes);
// The model with convolutions and what follows them put together. Its parameters are not trained:
// they are frozen, under the names that they had.
Model fused_for_answers(const Model& model);

// ---- for patterns

// The node that gives the value, if it is this operator; -1 if not.
NodeId maker(const Model& model, ValueId value, const std::string& op);
// The same, where nothing else reads the value.
NodeId only_maker(const Model& model, ValueId value, const std::string& op);
// The one element of a constant, repeated or not; nothing of what is trained.
std::optional<double> one_number(const Model& model, ValueId value);
// All numbers of a value that the model keeps; nothing of a random one, or of more than `most`.
inline constexpr size_t kMostNumbers = size_t{1} << 20;
std::optional<std::vector<float>> numbers_in(const Value& value, size_t most = kMostNumbers);
// The other input of a node of two.
ValueId other_input(const Node& node, ValueId one);
// A Reshape's `shape` that gives this one: the batch is what is left.
std::vector<int64_t> reshaped_to(const ops::Shape& shape);

}  // namespace kerf::partitioner::onnx
