// Parts that a cut would leave without work, and how they are refused: no worker is left idle in
// silence. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "partitioner/cut.h"

namespace kerf::partitioner {

// Parts that compute nothing, or only what others compute too, or only rows of the loss: ascending.
// Who has copies for rows of the loss of its own is not idle, nor is of parts that have nothing but
// copies of each other's the first; under --shares a copy is what was asked.
std::vector<int> idle_parts(const Model& model, const PlanRequest& request,
                            const Division& division);

// Why a device of that kind has no share of any operator.
inline constexpr std::string_view kTooSlowForUnits =
    "beside the others its device is too slow for a unit of any operator";
// Whether there are parts of this group with faster devices.
bool has_a_slow_device(const PlanRequest& request, int part, const std::vector<int>& group);
// The way out: "use --workers 3 or fewer"; beside --devices, which lists every worker, "leave it
// out of --devices, with --workers 3". `idle` is ascending, and has one at least.
std::string without_idle(const PlanRequest& request, const std::vector<int>& idle);

// Throws Error{kInfeasible} that names the part and says why, with the way out.
[[noreturn]] void refuse_idle(const PlanRequest& request, int part, const std::string& reason);

}  // namespace kerf::partitioner
