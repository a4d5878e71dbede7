// How a program converged, as a picture: an SVG of its own. A pure function.
#pragma once

#include <string>
#include <vector>

#include "apps/report/convergence.h"

namespace kerf::apps {

// Over seconds, by powers of ten: by how much each point's objective is above the least of all, in
// parts of that, and the gaps of checks. What is 1e-12 or less is drawn there. `title` is above it.
// At least one point.
std::string draw_convergence(const std::vector<ConvergencePoint>& points, const std::string& title);

}  // namespace kerf::apps
