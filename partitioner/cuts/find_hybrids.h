// Hybrid plans for the automatic cut (choose_plan.h): in stages of even groups, for each number of
// them, then in groups of any size. Each is searched by itself, on as many threads as there are
// processors; what is found does not depend on that.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/choose_plan.h"

namespace kerf::partitioner {

struct FoundHybrid {
  std::string how;                       // "hybrid in 3 stages"
  Model model;                           // rewritten as it needs it
  std::optional<Assignment> assignment;  // empty: none is within the memory cap
  std::exception_ptr fault;              // what speaks against it: then there is nothing else
};

// In the order in which they are told of. Throws Error{kInternal} for faults of Kerf's.
std::vector<FoundHybrid> find_hybrids(const Model& model, const PlanRequest& request,
                                      const InFlight& in_flight, const OnTry& on_try);

}  // namespace kerf::partitioner
