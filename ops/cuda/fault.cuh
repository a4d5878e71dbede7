// The place of a kernel's faults (fault.h) for bodies of one call.
#pragma once

#include "ops/cuda/cuda_workbench.h"
#include "ops/cuda/fault.h"
#include "ops/cuda/launch.cuh"

namespace kerf::ops::cuda {

struct FaultPlace {
  Fault* fault;
  int64_t samples;
  int64_t first_sample;
  int64_t turn;

  // By one thread of a launch. What was found before stays.
  KERF_DEVICE void keep(int64_t at, int64_t value, double ratio = 0) const {
    if (fault->at >= 0) return;
    fault->value = value;
    fault->ratio = ratio;
    fault->samples = samples;
    fault->first_sample = first_sample;
    fault->turn = turn;
    fault->at = at;
  }
};

inline FaultPlace fault_place(const FaultReport& report, const Call& call) {
  return {&report.place(), call.samples, call.first_sample, report.bench().next_turn()};
}

}  // namespace kerf::ops::cuda
