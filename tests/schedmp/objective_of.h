// What a step takes under a schedule that is built in.
#pragma once

#include <memory>
#include <string>

#include "schedmp/schedules.h"
#include "schedmp/simulate.h"

namespace kerf::schedmp {

inline std::unique_ptr<partitioner::Objective> objective_of(const std::string& schedule) {
  return simulated_step([schedule](const partitioner::Model& model, const partitioner::Plan& plan) {
    return make_schedule(schedule, model, plan);
  });
}

}  // namespace kerf::schedmp
