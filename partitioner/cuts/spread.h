// Spreading: the division of operators over a group of parts, given those of what they read. What
// the feature, hybrid and free cuts have in common. Of each operator the first of these that it
// can:
//
//   one-to-all (Gemm, Conv)   by its inputs, if they are divided over all and partial sums are no
//                             more than what parts would read: a pair, whose sums travel (`pairs`);
//                             else by its features, 10 over 4 is 3+3+2+2, in units of what reads
//                             them (ties.h)
//   else (Relu, Add ...)      as an input on the same group is divided (follow.h); replicated on
//                             the group where it reads data only; by its features
//   of one feature, or none   by sample; replicated where samples mix
//
// Nothing is whole on one part of several, but by sample what a micro-batch has one row of. What
// divides by a rewrite only (LayerNormalization, a loss by its classes) is found before the cut, by
// the same rules (rewrites_for_spread), where what its pieces exchange is less than what they
// share.
//
// Pure functions; no threads.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "partitioner/cut.h"
#include "partitioner/cuts/follow.h"

namespace kerf::partitioner {

// Whether a feature of the output needs all of the activations, so that layers begin here.
bool is_one_to_all(const Model& model, NodeId node);

struct SpreadRules {
  bool pairs = true;
  bool by_rewrites = false;
  std::vector<double> speeds = {};  // of parts, to which shares are in proportion; empty: even
};
// With which a request's cut spreads: its pairs, and the speeds of its devices.
SpreadRules rules_of(const PlanRequest& request);

// A Spreading borrows its model.
class Spreading {
 public:
  Spreading(const Model& model, const SpreadRules& rules);

  // `division` of what comes before in model order is set.
  ops::Layout divide(NodeId node, const std::vector<int>& group, const Division& division) const;

 private:
  ops::Layout divide_product(NodeId node, const std::vector<int>& group,
                             const Division& division) const;
  std::optional<ops::Layout> follow_any(NodeId node, const std::vector<int>& group,
                                        const Division& division) const;
  std::optional<ops::Layout> follow_sums(NodeId node, const std::vector<int>& group,
                                         const Division& division) const;
  int64_t served_by_features(NodeId node, const std::vector<int>& group) const;
  int64_t read_by_features(NodeId node, size_t k, const std::vector<int>& group,
                           int64_t largest) const;
  std::optional<ops::Layout> by_features(NodeId node, const std::vector<int>& group,
                                         int64_t largest) const;
  ops::Layout by_samples(NodeId node, const std::vector<int>& group, int64_t largest) const;
  bool pays(NodeId node, const ops::Layout& layout, int64_t largest) const;
  bool is_fit(NodeId node, const ops::Layout& layout, int64_t largest) const;

  const Model& model_;
  const SpreadRules rules_;
  const Spaces spaces_;
  const Ties ties_;
  std::set<ValueId> results_;  // what the model gives: never partial sums
};

// What must be rewritten of a model that these rules divide over groups, of which each node is on
// those that it can be in.
std::vector<Rewrite> rewrites_for_spread(
    const Model& model, const PlanRequest& request, const std::vector<std::vector<int>>& groups,
    const std::function<bool(NodeId node, size_t group)>& can_be_in);

// spread() itself is in cut.h: a plan's text leaves out what it would choose.

// Parts that follow one another.
std::vector<int> parts_from(int first, int count);
// All parts of a cut of one stage.
std::vector<int> all_parts(const PlanRequest& request);

// All operators on all parts.
Stage stage_of_all(const Model& model, const PlanRequest& request);

// The model's work, by what the request minimises, over its workers: no division does with less.
double even_share(const Model& model, const PlanRequest& request);

// Divides the nodes of all stages, in model order, as `given` (by node) where that says.
Assignment spread_all(const Model& model, const PlanRequest& request, std::vector<Stage> stages,
                      double bound, const std::vector<std::optional<ops::Layout>>& given);

}  // namespace kerf::partitioner
