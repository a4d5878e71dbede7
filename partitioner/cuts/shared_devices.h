// Layer cuts of which several stages share a device: simulated annealing over the stages of units
// and the devices of stages. The graph of stages stays acyclic, as a unit that moves takes along
// what must come before or after it; the load of a device counts what enters or leaves it, once.
//
//   stage    0 | 1 | 2 | 3 | 4 | 5        an edge never leads to a lower stage
//   device   0   1   2   1   0   2
//
// Borrows the units; the same request gives the same answer. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/units.h"

namespace kerf::partitioner {

struct SharedDevices {
  std::vector<int> stage_of;   // by unit
  std::vector<int> device_of;  // by stage
  std::vector<double> memory;  // by device: of what its units hold
  double bottleneck = 0;       // load of the fullest device
};

struct SharedRequest {
  int devices = 1;
  int stages_per_device = 1;
  std::vector<double> memory;    // by device, at most; kNever: whatever it takes
  int64_t moves = 0;             // that are tried
  std::vector<int> device_type;  // by device (units.h: work); empty: all of the first
};

// Starts with `start`, a division into one stage per device (stage by unit; none: an even one), and
// with cuts into equal parts of its order; what it returns is as good as `start`, or better. No
// stages at all where it finds none within the memory.
SharedDevices share_devices(const Units& units, const SharedRequest& request,
                            std::vector<int> start);

}  // namespace kerf::partitioner
