// Features: what of an operator's iterations a feature cut divides, and even divisions of them. Pure
// functions.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/connector.h"

namespace kerf::partitioner {

// The model's nodes as one who divides them sees their iterations.
class Spaces {
 public:
  // `by_rewrites`: axes that rewrites divide count as divisible (rewrite.h).
  explicit Spaces(const Model& model, bool by_rewrites = false);

  const ops::IterationSpace& of(NodeId node) const {
    return rewritten_.empty() ? model_.op(node).space() : rewritten_[static_cast<size_t>(node)];
  }
  const Model& model() const { return model_; }

 private:
  const Model& model_;
  std::vector<ops::IterationSpace> rewritten_;  // empty: the operators' own
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

// The axis of a node's iterations that a feature cut divides; -1 if there is none.
int feature_axis(const ops::IterationSpace& space);
// How many units it has; 0 if there is none.
int64_t feature_units(const ops::IterationSpace& space);
// Features over the group, larger shares first. With fewer units (groups of channels) than parts,
// what each unit has of outputs is divided further, where that comes out even. `space` has a
// feature axis.
ops::Layout divide_evenly_by_features(const ops::IterationSpace& space,
                                      const std::vector<int>& group);

// Whether a feature of the output needs all of the activations, so that layers begin here.
bool is_one_to_all(const Model& model, NodeId node, const ops::IterationSpace& space);

}  // namespace kerf::partitioner
