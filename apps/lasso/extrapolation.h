// Anderson acceleration: from iterates r_0, ..., r_k of a map that comes near its fixed point
// linearly, the affine combination of r_1, ..., r_k whose differences add up to least. As for
// coordinate descent in celer (Massias et al., ICML 2018; Bertrand and Massias, AISTATS 2021). A
// pure function.
#pragma once

#include <optional>
#include <vector>

namespace kerf::apps {

// The coefficients of r_1, ..., r_k, which add up to 1. Empty where nothing moves, or less than two
// are there.
std::optional<std::vector<double>> extrapolation_of(
    const std::vector<std::vector<double>>& iterates);

}  // namespace kerf::apps
