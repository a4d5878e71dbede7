// The memory that the setting of a run (request.h) takes for messages.
//
//   sender    [slot][slot][slot]...  ──>  receiver   reads them there (shm, cuda, inproc), or
//                                                    [slot][slot][slot]... at both ends: ipc, tcp
//
// A route has as many slots as its ends hold at once, and some more, so that the sender runs
// ahead. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "partitioner/plan.h"
#include "partitioner/request.h"

namespace kerf::partitioner {

// worker -> bytes of slots. `held`: route -> messages that its ends hold at once. `samples`:
// rows of the largest micro-batch.
std::vector<int64_t> slot_bytes(const Model& model, const Plan& plan, const std::vector<int>& held,
                                const Setting& setting, int64_t samples);

// The same for channels that are not all alike: `place_of` says of two workers, sender first.
std::vector<int64_t> slot_bytes(const Model& model, const Plan& plan, const std::vector<int>& held,
                                int slots, int64_t samples,
                                const std::function<SlotPlace(int, int)>& place_of);

}  // namespace kerf::partitioner
