// Random legal rows for a plan: a schedule that nobody would choose, which the verifier must prove
// and a run must carry out.
#pragma once

#include "schedmp/interpreter.h"
#include "schedmp/verify.h"
#include "tests/partitioner/random_cut.h"

namespace kerf::schedmp {

enum class Order : uint8_t {
  kPossible,  // each action finds what it needs: with slots enough, nobody waits for ever
  kAny,       // each stage's own order is legal; workers may wait for each other in a circle
};
enum class Recomputes : uint8_t { kNothing, kSome };
// Forwards, of every other schedule some of them recomputed, I and W apart or B, and reductions
// apart or within the update, in a random order; updates come last, together.
Schedule random_rows(const partitioner::Model& model, const partitioner::Plan& plan,
                     partitioner::Random& random, Order order = Order::kPossible,
                     Recomputes recomputes = Recomputes::kSome);

}  // namespace kerf::schedmp
