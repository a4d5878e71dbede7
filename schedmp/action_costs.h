// Costs of actions as text: what a person gives to `kerf schedule --costs`. Pure functions.
//
//   1,1,1        F, I and W of every stage, in any unit
//   1,1.2,0.8,0.1  and of every message between workers
//
//   {"kerf_costs": 1, "COMM": 0.1, "stages": [{"F": 1, "I": 1.2, "W": 0.8}, {"F": 2, ...}]}
//
// A stage of the file may have its update, too: "U"; and what its messages have and what a
// micro-batch keeps there (unfold.h): "F_bytes", "I_bytes", "W_bytes", "kept_bytes".
#pragma once

#include <string>

#include "partitioner/capacities.h"
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

// "LATENCY[,BANDWIDTH]": a unit of time, and bytes by unit of time. Throws Error{kUsage}.
Link parse_link(const std::string& text);
// "F[,I[,W]]": the bytes of messages of every stage; I as F, W 0 unless it says so. Throws
// likewise.
void parse_message_bytes(const std::string& text, ActionCosts& costs);
// "none", "link" or "port". Throws likewise.
Contention parse_contention(const std::string& text);
// Those that are listed: what is left out of one is as of every other, or takes no time.
Links links_of(const partitioner::Capacities& capacities, const std::optional<Link>& every);

}  // namespace kerf::schedmp
