// Predictions that stand in a plan's text and that no checksum vouches for, against those that the
// plan comes to. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "partitioner/complete_plan.h"
#include "partitioner/plan.h"

namespace kerf::partitioner {

// The first figure of a sound plan that differs from what is computed afresh, which worker's it is,
// both figures, and the way out; empty if none does. Bytes are compared exactly, seconds, FLOPs and
// prices within one in a million. Of the peak only what tensors take is compared, which it must not
// be less than: kernels take for themselves what the library of a machine wants, so the plan's peak
// becomes that of this one; in a file that does not tell the two apart, it is compared. A schedule
// that cannot be one of the plan's stages is wrong, too. What was `left_out` was computed already,
// and the bound, which only the search for the plan knows, must not be above the bottleneck. Not
// compared are the figures of a file from before there was a step vector, and memory where the
// schedule is not known (InFlightOf).
std::optional<std::string> wrong_prediction(const Model& model, const LeftOut& left_out,
                                            const InFlightOf& in_flight_of, Plan& plan);

}  // namespace kerf::partitioner
