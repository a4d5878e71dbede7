// The ways to divide a model in which the zoo is trained, by name.
//
//   feature, batch, hybrid, layer   the cuts of these names
//   space                           the free cut of which nothing is asked
//   groups                          the first half of the layers by sample, the others by feature
//   scattered                       the free cut by a file of shares: units dealt out at random
//   auto                            whatever the planner chooses for 1F1B
//   block-cyclic                    the free cut by a pattern: units in turn
#pragma once

#include <array>
#include <string>

#include "partitioner/cut.h"

namespace kerf::partitioner {

inline constexpr std::array kWaysToDivide = {
    "feature", "batch", "hybrid", "space", "groups", "layer", "scattered", "auto", "block-cyclic"};

struct Divided {
  Model model;  // rewritten
  Plan plan;

  // Whether every operator is whole and as it was read: then a step has the uncut model's bits.
  bool by_layer() const;
};

// `request`: workers, batch and micro-batches of a step.
Divided divided(const Model& model, const std::string& way, const PlanRequest& request);

}  // namespace kerf::partitioner
