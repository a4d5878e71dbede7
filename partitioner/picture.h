// The picture of a cut: operators as boxes, coloured by stage, one column per worker, connectors as
// arrows labelled with bytes. A self-contained SVG document; nothing is laid out by other programs.
#pragma once

#include <string>

#include "partitioner/plan.h"

namespace kerf::partitioner {

std::string draw_svg(const Model& model, const Plan& plan);

}  // namespace kerf::partitioner
