// Segments of a topological order: what each costs as a stage of a layer cut.
//
//   order     conv1 relu1 pool1 conv2 | relu2 pool2 flatten fc1 | relu3 fc2 relu4 fc3 loss
//   [i, j)                            4                         8
//
// Used by one thread: memory() keeps what it has computed.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "partitioner/cut.h"
#include "partitioner/memory.h"

namespace kerf::partitioner {

// What the segments of all orders share. Borrows model, request and objective.
struct LayerFacts {
  LayerFacts(const Model& model, const PlanRequest& request, const Objective& objective);

  bool by_time() const { return request.minimise == Minimise::kTime; }
  int stages() const { return request.workers; }
  int64_t bytes(ValueId value) const {
    return whole_blocks(static_cast<int64_t>(model.value(value).spec.bytes(sizes.front())));
  }
  double wire_bytes(ValueId value) const;
  double wire_seconds(ValueId value) const;
  // Messages of values that a stage after `stage` holds, at most.
  int held_after(int stage) const;

  const Model& model;
  const PlanRequest& request;
  const Objective& objective;
  std::vector<Computation> computations;  // by node
  std::vector<int64_t> sizes;             // of micro-batches, the largest first
  std::vector<double> prices;             // by node: seconds or FLOPs of one step
};

class Segments {
 public:
  Segments(const LayerFacts& facts, const std::vector<NodeId>& order);

  int size() const { return static_cast<int>(order_.size()); }
  const std::vector<NodeId>& order() const { return order_; }

  // Of what the request minimises: computing alone, and with what must be received.
  double work(int i, int j) const {
    return summed_[static_cast<size_t>(j)] - summed_[static_cast<size_t>(i)];
  }
  double price(int i, int j) const {
    return facts_.by_time() ? work(i, j) + seconds_[cell(i, j)] : work(i, j);
  }
  double entering_bytes(int i, int j) const { return bytes_[cell(i, j)]; }

  // Whether a boundary at i or j parts two users of one parameter, which live together.
  bool parts_users(int i, int j) const;
  // Whether it parts the loss from its scores: that route is the loss's own.
  bool parts_loss(int i, int j) const;

  // Bytes that a worker needs for [i, j) as stage s: an upper bound of what predict() says of it.
  int64_t memory(int s, int i, int j) { return own_memory(s, i, j) + slot_memory(s, i, j); }
  // Without slots, whose number is known exactly only when all is connected: a lower bound.
  int64_t own_memory(int s, int i, int j) { return lasting(s, i, j) + stage(i, j).transient; }
  // What of it only grows with the segment: weights, and what is kept for the gradients.
  int64_t lasting(int s, int i, int j);

 private:
  size_t cell(int i, int j) const {
    return static_cast<size_t>(i) * (order_.size() + 1) + static_cast<size_t>(j);
  }
  int position(NodeId node) const { return position_[static_cast<size_t>(node)]; }
  void find_entering();
  void find_ties();
  std::vector<NodeId> sorted(int i, int j) const;
  const StageMemory& stage(int i, int j);
  int64_t readers(int s, int j, ValueId value) const;
  std::vector<ValueId> entering(int i, int j) const;
  int64_t slot_memory(int s, int i, int j) const;

  const LayerFacts& facts_;
  const std::vector<NodeId>& order_;
  std::vector<int> position_;   // by node
  std::vector<double> summed_;  // prices before each position
  std::vector<double> bytes_;   // that enter, by (i, j)
  std::vector<double> seconds_;
  std::vector<std::pair<int, int>> ties_;  // first and last user of a parameter with several
  int scores_ = 0;                         // positions of what makes the scores and of the loss
  int loss_ = 0;
  std::map<std::pair<int, int>, StageMemory> memory_;
};

}  // namespace kerf::partitioner
