// What a person's rules say of a layer cut's units: which worker has each, and which may not meet.
// So a stage has units of one worker only, and of those that are to be apart units of one list;
// both only get harder to meet as a stage grows. Plain values; pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "partitioner/units.h"

namespace kerf::partitioner {

class Model;
struct PlanRequest;

// Of the units of a stage together.
struct StageRules {
  int worker = -1;         // that has them; -1: any
  std::vector<int> lists;  // by --apart: of which list they are; -1: none
};

struct UnitRules {
  std::vector<int> worker;              // by unit; -1: any
  std::vector<std::vector<int>> group;  // by --apart: by unit the number of the list; -1: none

  // One more unit; false, and nothing of the stage holds any more, where it may not join others.
  bool add(int unit, StageRules& stage) const;
  // By start, how far a segment of the order may go on a worker: until a unit that is another
  // worker's, or that may not meet one in it.
  std::vector<int> ends_on(int worker, const std::vector<int>& order) const;
};

// Throws Error{kUsage} at --place or --apart where rules contradict each other.
UnitRules steered_units(const Model& model, const PlanRequest& request, const Units& units);

// The rules with a worker for every unit of a list, so that whatever stages meet them keep on each
// worker units of one list: in every way that workers may have them. Where units are many, those of
// one list go to one worker; of many ways the first `most`, and none that takes long to be found.
std::vector<UnitRules> cases_of_apart(const UnitRules& rules, int workers, size_t most);

// A topological order of the units that changes the worker seldom, and the workers in turn.
std::vector<int> order_by_worker(const Units& units, const std::vector<int>& worker);
std::vector<int> runs_of(const std::vector<int>& order, const std::vector<int>& worker);

}  // namespace kerf::partitioner
