// Which gradients there are: what the backward pass of a model gives, whatever cut it has. A plain
// value, made in O(model).
//
//   x ── fc ── h ──┬── out ── loss      h has a gradient, that `out` alone returns
//                  └── argmax ── cast   nothing of these reaches the loss
#pragma once

#include <vector>

#include "partitioner/model.h"

namespace kerf::partitioner {

class Gradients {
 public:
  // `trains`: whether there is a backward pass at all.
  explicit Gradients(const Model& model, bool trains = true);

  // Whether the backward pass has a gradient of this activation or parameter: it comes from a
  // parameter and reaches the loss.
  bool of(ValueId value) const { return of_value_[static_cast<size_t>(value)]; }
  // Whether one of its outputs has one; the loss does, if it comes from a parameter.
  bool through(NodeId node) const { return through_[static_cast<size_t>(node)]; }
  // Whether what uses a value that has one returns a part of it.
  bool returned_by(const Use& use) const { return through(use.node); }

 private:
  std::vector<bool> of_value_;
  std::vector<bool> through_;
};

}  // namespace kerf::partitioner
