// How long a worker takes for a piece of its work, measured before it is told which part of the
// whole it gets (LoadBalancer::borders).
#pragma once

#include <functional>

namespace kerf::schedmp {

// Goes are so long that a processor that is shared with others, which take turns of some
// milliseconds, shows as slow; the fastest is one that nothing else delayed.
inline constexpr int kGoes = 3;
inline constexpr double kSecondsOfGo = 0.05;

// A go takes the piece again and again, once at least, for so long; this is seconds for one piece
// in the fastest go. Called by a worker's compute thread.
double measured_pace(const std::function<void()>& piece);

}  // namespace kerf::schedmp
