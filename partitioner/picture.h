// The picture of a cut: operators as boxes, coloured by the workers that their stage is on, one
// column per worker, connectors as arrows labelled with bytes. Of large models each stage is a box,
// but one, which is opened. A self-contained SVG document; nothing is laid out by other programs.
#pragma once

#include <optional>
#include <string>

#include "partitioner/plan.h"

namespace kerf::partitioner {

// `open`: the stage that is opened; nothing: the slowest worker's. Throws Error{kUsage} where there
// is no such stage, and where every operator is drawn anyway.
std::string draw_svg(const Model& model, const Plan& plan, std::optional<int> open = {});

}  // namespace kerf::partitioner
