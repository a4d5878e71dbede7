// The arithmetic of this process: what decides its rounding, and how many threads it may use.
#pragma once

#include <string>

namespace kerf::ops {

// The instruction set in use and the versions of the arithmetic libraries. Two workers with equal
// text (and equal numbers of threads) compute the same bits.
std::string arithmetic_identity();
// How many threads kernels use when the calling thread runs them. A worker calls it once, first
// thing in its compute thread; workers that are threads of one process each have their own number.
// Returns how many it was before.
int use_threads(int threads);

}  // namespace kerf::ops
