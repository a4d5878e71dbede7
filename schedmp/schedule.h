// Schedules: per worker, a list of actions. Data, never code that runs.
//
// Text of an action: STAGE KIND [MICRO-BATCH][@VERSION]: "2F0" is stage 2, forward, micro-batch 0;
// I is the input gradient, W the weight gradient, B both, U the update. Members of a group agree on
// the order of the stages that they share. Sends and receives are not written: they follow from the
// plan. Plain values; no threads.
//
// A stage may have replicas: further groups with weights of their own, each of which takes some of
// the micro-batches; their gradients are summed before the update, and the weights stay equal.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
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
  // In rows that name their transfers, and never in Kerf's own text.
  kSendForward,
  kReceiveForward,
  kSendGradient,
  kReceiveGradient,
  kAwaitSentForward,
  kAwaitSentGradient,
};

struct Action {
  static constexpr int kUnsaid = 1;
  int stage = 0;
  ActionKind kind = ActionKind::kForward;
  int micro_batch = -1;  // -1: of the step
  // Of the weights that it reads, against the newest of the stage: 0, -1 the one before, and so on
  // (of versions before the first, the first). Unsaid, a forward reads the newest and gradients
  // what their forward read.
  int version = kUnsaid;
  bool operator==(const Action&) const = default;
};

// U and REDUCE_GRAD, which name the last micro-batch whose gradients they take, or none: all.
bool is_of_updates(ActionKind kind);

std::string_view to_string(ActionKind kind);  // "F", "REDUCE_GRAD"
std::string to_string(const Action& action);

// Stages and their micro-batches that the row recomputes.
std::set<std::pair<int, int>> recomputed_in(const std::vector<Action>& row);

struct Schedule {
  std::string name;
  int micro_batches = 0;
  std::vector<std::vector<int>> groups;   // stage -> workers; all stages of each replica in turn
  std::vector<std::vector<Action>> rows;  // worker -> actions
  int replicas = 1;
  std::vector<int> replica_of = {};  // by micro-batch; empty: there is one
  // Whether rows name what is sent and received, of a chain of stages (torch_csv.h). Else that
  // follows from the plan.
  bool transfers = false;
  // Whether gradients of weights may be added up in any order, as a file of PyTorch's may have
  // them: then the sums have bits of their own. Kerf's own text has no word for that.
  bool any_weight_order = false;
  // Of an endless schedule, by worker: what comes before the first period, and the last period,
  // after which nothing is under way. Rows are a period's then. Micro-batches count from their
  // period's first; what is of the next one may stand beside it.
  std::vector<std::vector<Action>> prologue = {}, epilogue = {};

  int workers() const { return static_cast<int>(rows.size()); }
  int stages() const { return static_cast<int>(groups.size()) / replicas; }
  int replica(int micro_batch) const {
    return replica_of.empty() ? 0 : replica_of[static_cast<size_t>(micro_batch)];
  }
  // The number among `groups` of that which takes the micro-batch through the stage.
  size_t group(int stage, int micro_batch) const {
    return static_cast<size_t>(replica(micro_batch)) * static_cast<size_t>(stages()) +
           static_cast<size_t>(stage);
  }
  int64_t actions() const;  // of all rows
  bool trains() const;      // has more than forwards
  // Whether updates stand within the step, and name the last micro-batch that they take.
  bool updates_within() const;
  bool endless() const { return !prologue.empty(); }
  bool operator==(const Schedule&) const = default;
};

// An endless schedule's prologue and so many periods, one at least, as a schedule that ends.
Schedule unrolled(const Schedule& endless, int periods);
// An endless one whose period is so many of its periods.
Schedule joined(const Schedule& endless, int periods);
// Of a step of so many micro-batches: an endless schedule whose period is the step; any other as it
// is. Throws Error{kUsage} where periods make no such step.
Schedule step_of(const Schedule& schedule, int micro_batches);
// The rows of a period, less what is of later ones: what an epilogue may be.
std::vector<std::vector<Action>> last_period(const Schedule& endless);

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
// An endless one has "prologue 0:", "steady 0:" and "epilogue 0:" in place of "row 0:"; where no
// worker has an epilogue, it is the steady period less what is of later ones.
// With replicas, "stage 0 on 0 and 1" names a group for each, and behind the stages "replica 1: 2
// 3" says which micro-batches go through it; all others go through replica 0.
//
// '#' starts a comment. parse throws Error{kUsage} at "origin:line:column".
std::string write_schedule(const Schedule& schedule);
Schedule parse_schedule(const std::string& text, const std::string& origin);

}  // namespace kerf::schedmp
