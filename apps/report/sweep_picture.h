// A sweep over schedules as a plot: a line for each schedule, and for each of the other axes that
// has several values, against micro-batches or, of one number of them, workers.
#pragma once

#include <optional>
#include <string>

#include "apps/report/sweep_record.h"

namespace kerf::apps {

// What goes up: what is idle of a step, or what a step takes.
enum class SweptQuantity : uint8_t { kBubble, kMakespan };

inline constexpr size_t kMostLines = 24;  // that can be told apart

// SVG. Refused points are left out. Empty where there are more lines than can be told apart. Pure
// function.
std::optional<std::string> draw_sweep(const SweepRecord& record, SweptQuantity quantity);

}  // namespace kerf::apps
