// A schedule as a picture: a row for each worker, what it does as boxes over time.
#pragma once

#include <string>
#include <vector>

#include "schedmp/kept.h"
#include "schedmp/staircase.h"

namespace kerf::apps {

// SVG. Forwards are blue, input gradients green, gradients of weights orange, both together violet;
// the chunks of a worker are lighter the later they are, and a box has its micro-batch's number
// where there is room. Below each row goes what the worker keeps of micro-batches, in bytes where
// they are known: all on one scale, whose top is the most of any worker. `kept` is by worker;
// empty: without. Pure function.
std::string draw_schedule(const schedmp::Schedule& schedule, const schedmp::Unfolded& unfolded,
                          const std::vector<std::vector<schedmp::Kept>>& kept = {});

}  // namespace kerf::apps
