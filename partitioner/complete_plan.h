// What follows from a plan's decisions: a plan's text may leave it out, and reading derives it.
//
//   layouts of activations      where their stage has one part, or the feature or hybrid cut's rule
//                               divides them over its group
//   layouts of everything else  from what reads them (complete_layouts)
//   routes                      connect()
//   predictions                 predict(), with what the kept request says
//
// Pure functions.
#pragma once

#include <optional>
#include <vector>

#include "partitioner/plan.h"

namespace kerf::partitioner {

struct LeftOut {
  std::vector<bool> layouts;  // by value
  bool routes = false;
  bool workers = false;
  bool bottleneck = false;
  bool bound = false;

  bool any() const;
};

// The layout of an activation made in `stage`, `layouts` of what comes before being set; empty for a
// free cut over several parts, which nothing implies.
std::optional<ops::Layout> implied_layout(const Model& model, Cut cut, const Stage& stage,
                                          ValueId value, const std::vector<ops::Layout>& layouts);

// Derives what was left out; `plan` has the rest. Throws Error{kUsage} that names what does not
// follow, or is not sound.
void complete_plan(const Model& model, const LeftOut& left_out, const ObjectiveOf& objective_of,
                   Plan& plan);

}  // namespace kerf::partitioner
