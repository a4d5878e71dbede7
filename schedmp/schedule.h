// Schedules: per worker, a list of actions. Data, never code that runs.
//
// Text of an action: STAGE KIND [MICRO-BATCH][@VERSION]: "2F0" is stage 2, forward, micro-batch 0;
// I is the input gradient, W the weight gradient, B both, U the update. Members of a group agree on
// the order of the stages that they share. Sends and receives are not written: they follow from the
// plan. Plain values; no threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::schedmp {

enum class ActionKind : uint8_t {
  kForward,
  kInputGradient,
  kWeightGradient,
  kBackward,
  kUpdate,
  kReduceGradient,
  kRecompute,
  kOffload,
  kReload,
};

struct Action {
  int stage = 0;
  ActionKind kind = ActionKind::kForward;
  int micro_batch = -1;  // -1: of the step
  int version = -1;      // -1: the current weights
  bool operator==(const Action&) const = default;
};

std::string_view to_string(ActionKind kind);  // "F", "REDUCE_GRAD"
std::string to_string(const Action& action);

struct Schedule {
  std::string name;
  int micro_batches = 0;
  std::vector<std::vector<int>> groups;   // stage -> workers
  std::vector<std::vector<Action>> rows;  // worker -> actions

  int workers() const { return static_cast<int>(rows.size()); }
  int stages() const { return static_cast<int>(groups.size()); }
  int64_t actions() const;  // of all rows
  bool trains() const;      // has more than forwards
  bool operator==(const Schedule&) const = default;
};

// Actions of all rows together that a schedule may have: more would fill memory before they ran.
inline constexpr int64_t kMostActions = int64_t{1} << 23;
// Of one that is only to be unfolded on its stages' graph (unfold.h), in a few gigabytes.
inline constexpr int64_t kMostUnfolded = int64_t{1} << 26;

// The text of a whole schedule, and back:
//
//   kerf-schedule 1
//   name 1f1b
//   workers 2
//   micro-batches 4
//   stage 0 on 0
//   stage 1 on 1
//   row 0: 0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3 0U
//   row 1: 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 1U
//
// '#' starts a comment. parse throws Error{kUsage} at "origin:line:column".
std::string write_schedule(const Schedule& schedule);
Schedule parse_schedule(const std::string& text, const std::string& origin);

}  // namespace kerf::schedmp
