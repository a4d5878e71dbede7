// Verification: proves or refutes, before anything runs.
//
// check_order looks at the text alone: every action once, order legal, members of a group in one
// order, and no word that a run would not execute. verify runs the rows on the lowered parts, by
// the interpreter that a run uses: which message each instruction sends, awaits, releases and
// retires, under k free slots per route beyond what its two ends hold; it finds deadlocks and names
// who awaits what, the smallest safe k, the credits each route needs, and the bytes of each worker.
// Steps that go on are played one behind the other (steps.h), one, two, and as many as show all.
// Of many problems the first kMostProblems are told, and the number of the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/part.h"
#include "partitioner/replicas.h"
#include "partitioner/setting.h"
#include "schedmp/schedule.h"

namespace kerf::schedmp {

// What a schedule's groups must equal.
using partitioner::groups_of;

inline constexpr size_t kMostProblems = 20;

// Empty if sound. Each problem names worker and action. The gradients of a stage's weights must be
// added up by ascending micro-batch, so that sums have the same bits under every schedule, unless
// the schedule says that they need not (any_weight_order).
std::vector<std::string> check_order(const Schedule& schedule);
// In how many periods of an endless schedule every way to wait in a circle is found, and every
// micro-batch that is forgotten, or that stands twice: periods are alike, a circle that is as short
// as can be comes to each worker once, and a message spans no more than the most that a period is
// ahead. And as many that the oldest version is read that an action names. check_order looks at so
// many.
int64_t proving_periods(const Schedule& endless);
// An endless schedule over those, any other as it is.
Schedule as_it_is_proved(const Schedule& schedule);
// What of it no run can do; empty: there is nothing.
std::optional<std::string> why_it_cannot_run(const Schedule& schedule);
// Whether `schedule` is one for this plan, and can run: stages, groups, replicas, micro-batches.
std::vector<std::string> check_fits(const Schedule& schedule, const partitioner::Plan& plan);

struct Verdict {
  std::vector<std::string> problems;  // empty: proved
  int smallest_safe_slots = -1;       // -1: no number is safe; 0: rendezvous is
  std::vector<int> held;              // route -> messages that its ends hold at once, 1 if brief
  std::vector<int64_t> arena_bytes;   // worker -> instances of regions, see interpreter.h
  std::vector<int64_t> persistent_bytes;  // worker -> parameters, gradients, optimizer states
  std::vector<int64_t> peak_bytes;        // worker -> both, and slots: what a run takes, exactly
  bool ok() const { return problems.empty(); }
};

// The first worker above a memory cap, by how much, and the cap that would fit; empty: none is.
std::string above_cap(const std::vector<int64_t>& peak_bytes, int64_t cap);

// With setting.slots >= 1 free slots per route beyond `held`; smallest_safe_slots also tries a
// rendezvous, where a send waits for its receive. `least_held`: what other rows over the same
// routes hold; empty: there are none.
Verdict verify(const partitioner::Model& model, const partitioner::Plan& plan,
               const std::vector<partitioner::Part>& parts, const Schedule& schedule,
               const partitioner::Setting& setting, const std::vector<int>& least_held = {});

}  // namespace kerf::schedmp
