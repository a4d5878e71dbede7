// What to change of a request that nothing fits: memory, and how it is told. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

struct DeviceMemory {
  int worker = 0;
  int64_t bytes = 0;  // that its device is to have
};
// "--memory 52428800 and a device of worker 1 with 1024 bytes": of everybody, and of devices that
// are to have more.
std::string memory_text(const std::optional<int64_t>& everybody,
                        const std::vector<DeviceMemory>& devices);

// Tells what memory would do, where no number of micro-batches does; the request with as much. Of
// what model_for() gives.
PlanRequest tell_memory(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                        Infeasible& lacks);

}  // namespace kerf::partitioner
