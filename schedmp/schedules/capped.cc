#include "schedmp/schedules/capped.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "runtime/error.h"
#include "schedmp/kept.h"
#include "schedmp/schedules/later_weights.h"
#include "schedmp/unfold.h"

namespace kerf::schedmp {

namespace {

class CappedRow {
 public:
  explicit CappedRow(int most) : most_(most) {}

  void offer(const Action& action) {
    catch_up();
    if (action.kind == ActionKind::kForward && kept_ >= most_) compute_weights();
    if (may(action) && (postponed_.empty() || may_pass(action)))
      take(action);
    else
      postponed_.push_back(action);
  }

  // Empty where what is left can never be taken.
  std::optional<std::vector<Action>> finish() {
    catch_up();
    if (!postponed_.empty()) return std::nullopt;
    return std::move(row_);
  }

 private:
  using Work = std::pair<int, int>;  // stage, micro-batch
  static Work work_of(const Action& action) { return {action.stage, action.micro_batch}; }

  bool may(const Action& action) const {
    switch (action.kind) {
      case ActionKind::kForward:
        return kept_ < most_;
      case ActionKind::kInputGradient:
      case ActionKind::kBackward:
        return forward_.contains(work_of(action));
      case ActionKind::kWeightGradient:
        return computed_.contains(work_of(action)) || has_input_gradient(work_of(action));
      default:
        return true;
    }
  }
  // Whether it may go before what is postponed: what frees a place, or leads to one.
  static bool may_pass(const Action& action) {
    return action.kind == ActionKind::kInputGradient || action.kind == ActionKind::kBackward ||
           action.kind == ActionKind::kWeightGradient;
  }
  bool has_input_gradient(const Work& work) const {
    return std::find(pending_.begin(), pending_.end(), work) != pending_.end();
  }

  void catch_up() {
    while (!postponed_.empty()) {
      if (postponed_.front().kind == ActionKind::kForward && kept_ >= most_) compute_weights();
      if (!may(postponed_.front())) return;
      take(postponed_.front());
      postponed_.pop_front();
    }
  }

  // The gradient of weights that has waited longest, if any does.
  void compute_weights() {
    if (pending_.empty()) return;
    const auto [stage, micro_batch] = pending_.front();
    computed_.insert(pending_.front());
    pending_.pop_front();
    row_.push_back({stage, ActionKind::kWeightGradient, micro_batch});
    --kept_;
  }

  void take(const Action& action) {
    const Work work = work_of(action);
    if (action.kind == ActionKind::kWeightGradient) {
      if (computed_.erase(work) > 0) return;  // before its turn
      pending_.erase(std::find(pending_.begin(), pending_.end(), work));
      --kept_;
    }
    if (action.kind == ActionKind::kForward) {
      forward_.insert(work);
      ++kept_;
    }
    if (action.kind == ActionKind::kBackward) --kept_;
    if (action.kind == ActionKind::kInputGradient) pending_.push_back(work);
    row_.push_back(action);
  }

  int most_;
  int kept_ = 0;
  std::vector<Action> row_;
  std::deque<Action> postponed_;
  std::set<Work> forward_;    // is done
  std::deque<Work> pending_;  // whose input gradient is done, and whose gradient of weights is not
  std::set<Work> computed_;   // whose gradient of weights went before its turn
};

[[noreturn]] void refuse(const Schedule& schedule, int most, const std::string& why) {
  const std::vector<int> peaks = peak_activations(schedule);
  throw Error(
      ErrorCode::kUsage,
      kerf::format("schedule {} with {} in flight would wait for ever ({}); by itself it "
                   "has {} at most",
                   schedule.name, most, why, *std::max_element(peaks.begin(), peaks.end())));
}

}  // namespace

Schedule capped(const Schedule& schedule, const Pipeline& pipeline, int most) {
  if (schedule.endless())
    throw Error(ErrorCode::kUsage,
                kerf::format("schedule {} goes on for ever: what its periods have in flight is its "
                             "own",
                             schedule.name));
  const std::vector<int> peaks = peak_activations(schedule);
  if (*std::max_element(peaks.begin(), peaks.end()) <= most) return schedule;
  if (schedule.name == "zb-h1" || schedule.name == "zb-h2")
    return later_weights(schedule.name, schedule.name == "zb-h1" ? 1 : 2, pipeline,
                         schedule.micro_batches, most);
  Schedule within = schedule;
  for (size_t worker = 0; worker < schedule.rows.size(); ++worker) {
    CappedRow row(most);
    for (const Action& action : schedule.rows[worker]) row.offer(action);
    auto finished = row.finish();
    if (!finished) refuse(schedule, most, kerf::format("worker {} for a place", worker));
    within.rows[worker] = std::move(*finished);
  }
  const std::vector<std::string> stuck = unfold(within, pipeline.graph).stuck;
  if (!stuck.empty()) refuse(schedule, most, stuck.front());
  return within;
}

}  // namespace kerf::schedmp
