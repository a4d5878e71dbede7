// Costs of actions as text: what a person gives to `kerf schedule --costs`. Pure functions.
//
//   1,1,1        F, I and W of every stage, in any unit
//   1,1.2,0.8,0.1  and of every message between workers
//
//   {"kerf_costs": 1, "COMM": 0.1, "stages": [{"F": 1, "I": 1.2, "W": 0.8}, {"F": 2, ...}]}
#pragma once

#include <string>

#include "schedmp/unfold.h"

namespace kerf::schedmp {

// "F,I,W[,COMM]". Throws Error{kUsage}.
ActionCosts parse_costs(const std::string& text);
// The JSON above. Throws Error{kUsage} at `origin` and the key.
ActionCosts read_costs(const std::string& text, const std::string& origin);
// That JSON, of the stages that are listed. What takes time, and less than can be read back,
// is written as the least that can (kLeastCost).
inline constexpr double kLeastCost = 1e-6;
std::string write_costs(const ActionCosts& costs);

}  // namespace kerf::schedmp
