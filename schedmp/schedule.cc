#include "schedmp/schedule.h"

#include <algorithm>
#include <array>
#include <climits>

#include "runtime/error.h"
#include "runtime/format.h"

namespace kerf::schedmp {

namespace {

// What is sent and received has PyTorch's words.
constexpr std::array<std::string_view, 15> kNames = {
    "F",      "I",      "W",      "B",      "U",      "REDUCE_GRAD", "RECOMPUTE",  "OFFLOAD",
    "RELOAD", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B"};

// Behind `row`, with micro-batches that begin at `first`, those below `end`.
constexpr int kAnyNumber = INT_MAX;
void add_later(const std::vector<Action>& actions, int first, int end, std::vector<Action>& row) {
  for (Action action : actions) {
    action.micro_batch += first;
    if (action.micro_batch < end) row.push_back(action);
  }
}

}  // namespace

std::string_view to_string(ActionKind kind) { return kNames[static_cast<size_t>(kind)]; }

bool is_of_updates(ActionKind kind) {
  return kind == ActionKind::kUpdate || kind == ActionKind::kReduceGradient;
}

std::string to_string(const Action& action) {
  std::string text = kerf::format("{}{}", action.stage, to_string(action.kind));
  if (action.micro_batch >= 0) text += std::to_string(action.micro_batch);
  if (action.version != Action::kUnsaid) text += kerf::format("@{}", action.version);
  return text;
}

std::set<std::pair<int, int>> recomputed_in(const std::vector<Action>& row) {
  std::set<std::pair<int, int>> recomputed;
  for (const Action& action : row)
    if (action.kind == ActionKind::kRecompute) recomputed.emplace(action.stage, action.micro_batch);
  return recomputed;
}

int64_t Schedule::actions() const {
  int64_t count = 0;
  for (const auto* section : {&prologue, &rows, &epilogue})
    for (const std::vector<Action>& row : *section) count += std::ssize(row);
  return count;
}

bool Schedule::trains() const {
  for (const std::vector<Action>& row : rows)
    for (const Action& action : row)
      if (action.kind != ActionKind::kForward) return true;
  return false;
}

bool Schedule::updates_within() const {
  for (const std::vector<Action>& row : rows)
    for (const Action& action : row)
      if (action.kind == ActionKind::kUpdate && action.micro_batch >= 0) return true;
  return false;
}

Schedule step_of(const Schedule& schedule, int micro_batches) {
  if (!schedule.endless()) return schedule;
  if (micro_batches < 1 || micro_batches % schedule.micro_batches != 0)
    throw Error(ErrorCode::kUsage,
                kerf::format("its periods have {} micro-batches, which make no step of {}",
                             schedule.micro_batches, micro_batches),
                kerf::format("schedule {}", schedule.name));
  const int periods = micro_batches / schedule.micro_batches;
  if (schedule.actions() > kMostActions / periods)
    throw Error(ErrorCode::kUsage,
                kerf::format("{} periods have more than {} actions", periods, kMostActions),
                kerf::format("schedule {}", schedule.name));
  return joined(schedule, periods);
}

Schedule joined(const Schedule& endless, int periods) {
  Schedule step = endless;
  step.micro_batches = periods * endless.micro_batches;
  for (size_t worker = 0; worker < endless.rows.size(); ++worker) {
    std::vector<Action>& row = step.rows[worker];
    std::vector<Action>& last = step.epilogue[worker];
    row.clear();
    last.clear();
    for (int period = 0; period < periods; ++period) {
      const int first = period * endless.micro_batches;
      add_later(endless.rows[worker], first, kAnyNumber, row);
      const auto& of_last = period + 1 < periods ? endless.rows[worker] : endless.epilogue[worker];
      add_later(of_last, first, step.micro_batches, last);
    }
  }
  return step;
}

Schedule unrolled(const Schedule& endless, int periods) {
  Schedule schedule = endless;
  schedule.prologue.clear();
  schedule.epilogue.clear();
  KERF_CHECK(periods >= 1 && periods <= (1 << 30) / endless.micro_batches, "{} periods of {}",
             periods, endless.micro_batches);
  schedule.micro_batches = periods * endless.micro_batches;
  for (size_t worker = 0; worker < endless.rows.size(); ++worker) {
    std::vector<Action>& row = schedule.rows[worker];
    row.clear();
    const auto add = [&](const std::vector<Action>& actions, int period) {
      add_later(actions, period * endless.micro_batches, schedule.micro_batches, row);
    };
    add(endless.prologue[worker], 0);
    for (int period = 0; period + 1 < periods; ++period) add(endless.rows[worker], period);
    add(endless.epilogue[worker], periods - 1);
  }
  return schedule;
}

std::vector<std::vector<Action>> last_period(const Schedule& endless) {
  std::vector<std::vector<Action>> rows(endless.rows.size());
  for (size_t worker = 0; worker < rows.size(); ++worker)
    add_later(endless.rows[worker], 0, endless.micro_batches, rows[worker]);
  return rows;
}

}  // namespace kerf::schedmp
