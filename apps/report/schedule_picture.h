// A schedule as a picture: a row for each worker, what it does as boxes over time.
#pragma once

#include <string>

#include "schedmp/staircase.h"

namespace kerf::apps {

// SVG. Forwards are blue, input gradients green, gradients of weights orange, both together violet;
// the chunks of a worker are lighter the later they are, and a box has its micro-batch's number
// where there is room. Pure function.
std::string draw_schedule(const schedmp::Schedule& schedule, const schedmp::Unfolded& unfolded);

}  // namespace kerf::apps
