// What follows from a plan's decisions: a plan's text may leave it out, and reading derives it.
//
//   divisions     from the layout of a node's first output where that stands; else whole where the
//                 stage has one part; else as the rule of the cut divides it
//   layouts       from the divisions (layouts_of)
//   routes        all_routes()
//   predictions   predict(), with what the kept request says
//
// Pure functions.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/cut.h"
#include "partitioner/plan.h"

namespace kerf::partitioner {

struct LeftOut {
  std::vector<bool> layouts;  // by value
  bool routes = false;
  bool step_routes = false;  // of the step vector alone, as in files from before there was one
  bool workers = false;
  bool bottleneck = false;

  bool any() const;
};

// What the rule of a cut makes of the nodes of a plan's stages. Borrows the model; made once for
// all nodes.
class ImpliedDivisions {
 public:
  ImpliedDivisions(const Model& model, const Plan& plan);

  // The division of a node of `stage`, those of what comes before being set; empty for a free cut
  // over several parts, which nothing implies.
  std::optional<ops::Layout> of(const Stage& stage, NodeId node, const Division& division) const;

 private:
  std::optional<ops::Layout> of_replicas(const Stage& stage, NodeId node,
                                         const Division& division) const;

  const Model& model_;
  const Cut cut_;
  std::vector<double> speeds_;
  DivideNode spread_;  // but for free and batch cuts
};

// What a plan's predictions assume: its batch, and what its request says where it keeps one.
PlanRequest request_of_plan(const Plan& plan);

// Derives what was left out; `plan` has the rest. Throws Error{kUsage} that names what does not
// follow, or is not sound.
void complete_plan(const Model& model, const LeftOut& left_out, const InFlightOf& in_flight_of,
                   Plan& plan);

}  // namespace kerf::partitioner
