// The setting of a run, as far as its memory depends on it: what the plan is for, beside the model.
//
//   sender    [slot][slot][slot]...  ──>  receiver   reads them there (shm, inproc), or
//                                                    [slot][slot][slot]... mirrored: ipc, tcp
//
// A route has as many slots as its receiver holds at once, and some more, so that the sender runs
// ahead. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/plan.h"

namespace kerf::partitioner {

struct Setting {
  int slots = 2;             // per route, beyond what the receiver holds; at least 1
  bool mirrored = false;     // the receiver has as many of its own
  int optimizer_states = 1;  // per parameter
  int threads = 1;           // per worker
};

// worker -> bytes of slots. `held`: route -> messages that its receiver holds at once. `samples`:
// rows of the largest micro-batch.
std::vector<int64_t> slot_bytes(const Model& model, const Plan& plan, const std::vector<int>& held,
                                const Setting& setting, int64_t samples);

}  // namespace kerf::partitioner
