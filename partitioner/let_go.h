// In which lists the two ends of a route let go of its messages: the sender where it reads on in
// what it sent (kRetire), the receiver where it has read it (kRelease). Pure functions.
#pragma once

#include <vector>

#include "partitioner/part.h"

namespace kerf::partitioner {

struct LetGo {
  bool forward = false;
  bool input_gradient = false;
  bool weight_gradient = false;
  bool recompute = false;
};
struct RouteEnds {
  LetGo sender;
  LetGo receiver;
};

// By route. `parts` by number.
std::vector<RouteEnds> ends_of_routes(const Plan& plan, const std::vector<Part>& parts);

// Whether the sender lets go of a message in the action that sends it, and the receiver in the one
// that receives it. Of such a route an end never has two, and one slot that is free besides is
// enough for each to be at a message of its own.
bool is_brief(const Route& route, const RouteEnds& ends);

}  // namespace kerf::partitioner
