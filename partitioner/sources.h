// Sources: where every box that a part needs comes from. The insertion rule of connector.h, asked
// one part and value at a time; connect() groups the answers into routes, lowering turns them into
// instructions. A Sources borrows its model, is immutable, and may be read by many threads.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "partitioner/at.h"
#include "partitioner/connector.h"
#include "partitioner/gradients.h"

namespace kerf::partitioner {

struct Source {
  int part = 0;  // that holds or makes it
  ops::Box box;  // of the global value, within what is needed; never empty
  // The one summand that it is, or several that were summed; none where it is the value itself.
  std::vector<Contribution> contributions;
  Leg leg = Leg::kDirect;  // how it arrives where it is needed
  bool operator==(const Source&) const = default;
};

class Sources {
 public:
  // Errors are those of computations(). `stage_of`: part -> stage; empty: there is one.
  Sources(const Model& model, const Division& division, std::vector<int> stage_of = {});

  const Model& model() const { return model_; }
  int64_t largest() const { return largest_; }
  int stage_of(int part) const { return at(part) < stage_of_.size() ? stage_of_[at(part)] : 0; }
  // Activations and their gradients stay within a replica.
  bool one_replica(int a, int b) const {
    return replica_parts_ == 0 || a / replica_parts_ == b / replica_parts_;
  }
  // Of a value in the largest micro-batch: what boxes are normalized against.
  ops::Shape shape(ValueId value) const {
    return model_.value(value).spec.shape.with_batch(largest_);
  }
  const std::vector<Computation>& computations() const { return computations_; }
  // Their numbers: of a node, and on a part.
  const std::vector<int>& computations_of(NodeId node) const { return by_node_[at(node)]; }
  const std::vector<int>& computations_on(int part) const;
  // What `part` needs of `value`; null if it reads nothing of it.
  const ops::Box* need(ValueId value, int part) const;
  // Whether the part keeps what it reads of a parameter beside its home: it reads more.
  bool has_read_copy(ValueId value, int part) const;
  // The share of `value` on `part`; null if it has none.
  const ops::Share* held(ValueId value, int part) const;
  // The parts that read `value`, ascending, and those that hold it (of a parameter: its homes), in
  // the order of its shares.
  std::vector<int> readers(ValueId value) const;
  const std::vector<ops::Share>& shares(ValueId value) const { return layouts_[at(value)].shares; }
  // Whether the backward pass has a gradient of this activation or parameter: it comes from a
  // parameter and reaches the loss.
  bool differentiable(ValueId value) const { return gradients_.of(value); }
  // The use into whose accumulator the gradient of this use of a parameter goes: its own, or where
  // one node of the model as it was read has several of it (a rewrite made them, or it reads the
  // parameter twice), and the same parts read the same for them, the last of those. It alone stands
  // for them among contributions.
  Use accumulated_with(const Use& use) const;
  // Whether one of its outputs is: then every call of it gives contributions, zeros where a part
  // computes of other outputs only.
  bool reaches_loss(NodeId node) const { return gradients_.through(node); }

  // Boxes that together are the need of `part` (disjoint ones, or summands), in the order of
  // shares. Sources on `part` itself included.
  std::vector<Source> of_value(ValueId value, int part) const;
  // The same for a box of an activation.
  std::vector<Source> of_value(ValueId value, int part, const ops::Box& box) const;
  // All contributions to `box` of a value that has a gradient, in the order in which they are
  // summed, as `part` gets them.
  std::vector<Source> of_gradient(ValueId value, int part, const ops::Box& box) const;

 private:
  void find_needs();
  void find_layouts();
  void find_shared_uses();
  bool reads_alike(const Use& a, const Use& b) const;
  void find_homes(ValueId value);
  std::vector<Source> of_kept(ValueId value, int part) const;
  int box_number_on(NodeId node, int part) const;
  std::vector<int> lowest_makers(NodeId node) const;

  const Model& model_;
  int64_t largest_;
  int replica_parts_;
  std::vector<int> stage_of_;  // by part
  std::vector<Computation> computations_;
  std::vector<std::vector<int>> by_node_;  // node -> computations
  std::map<int, std::vector<int>> by_part_;
  std::vector<ops::Layout> layouts_;  // of activations and what is kept, by value
  Gradients gradients_;
  std::map<std::pair<ValueId, int>, ops::Box> needs_;
  std::map<std::pair<NodeId, int>, Use> shared_uses_;  // those that are accumulated with another
};

// As connector.h's layouts_of() of the division.
std::vector<ops::Layout> layouts_of(const Sources& sources);

}  // namespace kerf::partitioner
