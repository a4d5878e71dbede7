// Random legal rows for a plan: a schedule that nobody would choose, which the verifier must prove
// and a run must carry out.
#pragma once

#include "schedmp/verify.h"
#include "tests/partitioner/random_cut.h"

namespace kerf::schedmp {

// Forwards, I and W apart or B, and reductions apart or within the update, in a random order in
// which each finds what it needs; updates come last, together.
Schedule random_rows(const partitioner::Model& model, const partitioner::Plan& plan,
                     partitioner::Random& random);

}  // namespace kerf::schedmp
