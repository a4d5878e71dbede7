// Features: what of an operator's iterations a feature cut divides, and divisions of them.
// Pure functions.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "partitioner/connector.h"

namespace kerf::partitioner {

// Who of these parts gets which of so many units.
using UnitSets =
    std::function<std::vector<ops::IndexSet>(int64_t units, std::span<const int> parts)>;

// The model's nodes as one who divides them sees their iterations, and how much each part gets.
class Spaces {
 public:
  // `by_rewrites`: axes that rewrites divide count as divisible (rewrite.h). `speeds`: of parts, to
  // which shares are in proportion; empty: shares are even.
  explicit Spaces(const Model& model, bool by_rewrites = false, std::vector<double> speeds = {});

  const ops::IterationSpace& of(NodeId node) const {
    return rewritten_.empty() ? model_.op(node).space() : rewritten_[static_cast<size_t>(node)];
  }
  const Model& model() const { return model_; }
  // The node's features over the group; it has a feature axis.
  ops::Layout by_features(NodeId node, const std::vector<int>& group) const;
  ops::Layout by_samples(NodeId node, const std::vector<int>& group, int64_t largest) const;

 private:
  const Model& model_;
  std::vector<ops::IterationSpace> rewritten_;  // empty: the operators' own
  std::vector<double> speeds_;
};

// Whether the operand's axis, of this extent, is a stretch of an iteration axis.
bool is_stretch(const ops::IterationSpace& space, const ops::OperandAxis& axis, int64_t extent);
// Whether input k is an activation.
bool is_activation(const Model& model, NodeId node, size_t k);
// The iterations of a node of which an operand has `box`, where the operand is a stretch of them
// as well; nothing where there are none.
std::optional<ops::Box> iterations_with(const ops::IterationSpace& space,
                                        const ops::OperandMap& map, const ops::Shape& operand,
                                        const ops::Box& box, int64_t largest);
// The layout itself if the node can be divided so; nothing otherwise.
std::optional<ops::Layout> sound(const Spaces& spaces, NodeId node, ops::Layout layout,
                                 int64_t largest);

// The axis of a node's iterations that a feature cut divides among so many parts: of those that
// give units to the most of them the first; -1 if there is none. What a reshape takes features
// apart into is one of them: more parts than halves of a shuffle each take some channels of both.
int feature_axis(const ops::IterationSpace& space, int parts);
// How many units it has; 0 if there is none.
int64_t feature_units(const ops::IterationSpace& space, int parts);
// That axis over the group, as `sets` has it for its units. With fewer units (groups of channels)
// than parts, what each unit has of outputs is divided further:
//
//   2 groups over 4        0 | 0 | 1 | 1          as many parts of each
//   2 groups over 5        0 | 0 | 1 | 1 | 0, 1   who is left has a little of every one
//   of few outputs         0 | 0 | 0 | 1 | 1      or of parts of different speeds: across them all
//
// `space` has a feature axis.
ops::Layout divide_features(const ops::IterationSpace& space, const std::vector<int>& group,
                            const UnitSets& sets);

// Whether a feature of the output needs all of the activations, so that layers begin here.
bool is_one_to_all(const Model& model, NodeId node, const ops::IterationSpace& space);

}  // namespace kerf::partitioner
