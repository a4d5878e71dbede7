// What a person's rules say of a layer cut's units: which worker has each, and which may not meet.
// Plain values; pure functions.
#pragma once

#include <string>
#include <vector>

#include "partitioner/cut.h"
#include "partitioner/cuts/line.h"

namespace kerf::partitioner {

struct SteeredUnits {
  std::vector<int> worker;              // by unit; -1: any
  std::vector<std::vector<int>> group;  // by --apart: by unit the number of the list; -1: none
};
// Throws Error{kUsage} at --place or --apart where rules contradict each other.
SteeredUnits steered_units(const Model& model, const PlanRequest& request, const Units& units);

// A topological order of the units that changes the worker seldom, and the workers in turn.
std::vector<int> order_by_worker(const Units& units, const std::vector<int>& worker);
std::vector<int> runs_of(const std::vector<int>& order, const std::vector<int>& worker);

// By start, how far a segment of the order may go: until a unit that is another worker's, or that
// may not meet one in it.
std::vector<int> ends_on_worker(const std::vector<int>& order, const std::vector<int>& worker,
                                int own);
std::vector<int> ends_apart(const std::vector<int>& order, const std::vector<int>& group);

}  // namespace kerf::partitioner
