// A plan as people and programs want to read it.
#pragma once

#include <string>

#include "partitioner/plan.h"
#include "runtime/json.h"

namespace kerf::apps {

// Of one step: between the layers, and what the loss adds (scores and their gradients).
struct StepTraffic {
  partitioner::Traffic layers;
  partitioner::Traffic loss;
  partitioner::Traffic total() const {
    return {layers.messages + loss.messages, layers.bytes + loss.bytes};
  }
};
StepTraffic step_traffic(const partitioner::Model& model, const partitioner::Plan& plan);

Json plan_report(const partitioner::Model& model, const partitioner::Plan& plan);
std::string plan_text(const partitioner::Model& model, const partitioner::Plan& plan, bool colour);

}  // namespace kerf::apps
