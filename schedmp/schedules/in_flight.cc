// Micro-batches in flight, counted in rows; what routes hold meanwhile, played.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/error.h"
#include "schedmp/message_play.h"
#include "schedmp/schedules.h"
#include "schedmp/steps.h"
#include "schedmp/verify.h"
#include "schedmp/versions.h"

namespace kerf::schedmp {

namespace {

using partitioner::Flight;
using partitioner::Model;
using partitioner::Part;
using partitioner::Plan;

// By group of the pipeline: how many micro-batches a stage has between their F and their I, between
// F and their last gradient, and between I and W, on any of its workers, at most. Where the
// schedule has other replicas than the pipeline, what any of them has; of stages that the rows
// lack, all micro-batches.
class FlightCount {
 public:
  // Of the steps of a run. Borrows the schedule.
  FlightCount(const Schedule& schedule, const Pipeline& pipeline)
      : schedule_(schedule),
        stages_(static_cast<size_t>(pipeline.graph.stages())),
        by_replica_(schedule.replicas > 1 &&
                    pipeline.groups.size() == stages_ * static_cast<size_t>(schedule.replicas)),
        flights_(std::max(pipeline.groups.size(), stages_)) {}

  std::vector<Flight> of_all() && {
    if (schedule_.trains())
      count_rows();
    else
      for (Flight& flight : flights_) flight.kept = flight.kept_for_weights = 1;
    const int all = schedule_.micro_batches;
    for (size_t group = 0; group < flights_.size(); ++group) {
      if (group >= stages_ && !by_replica_) flights_[group] = flights_[group % stages_];
      if (group % stages_ >= static_cast<size_t>(schedule_.stages()))
        flights_[group] = {all, all, all};
    }
    if (schedule_.updates_within()) add_versions();
    return std::move(flights_);
  }

 private:
  void count_rows() {
    for (Flight& flight : flights_) flight.merges = false;
    const Schedule full = in_full_flight(schedule_);
    for (const std::vector<Action>& row : full.rows) count(row);
    for (const auto& [group, micro_batch] : recomputed_) ++flights_[group].recomputed;
  }
  void add_versions() {
    const std::vector<StageVersions> versions = versions_of(schedule_);
    const int ahead = ahead_of(schedule_);
    for (size_t group = 0; group < flights_.size(); ++group) {
      if (group % stages_ >= versions.size()) continue;
      flights_[group].versions = versions[group % stages_].kept;
      flights_[group].ahead = ahead;
    }
  }
  void count(const std::vector<Action>& row) {
    std::map<size_t, Flight> now;  // by group
    const std::set<std::pair<int, int>> recomputed = recomputed_in(row);
    for (const auto& [stage, micro_batch] : recomputed)
      if (static_cast<size_t>(stage) < stages_)
        recomputed_.emplace(counted(stage, micro_batch), micro_batch);
    for (const Action& action : row) {
      if (static_cast<size_t>(action.stage) >= stages_ || action.micro_batch < 0) continue;
      Flight& has = now[schedule_.group(action.stage, action.micro_batch)];
      begin(action, recomputed.contains({action.stage, action.micro_batch}), has);
      Flight& most = flights_[counted(action.stage, action.micro_batch)];
      most.merges = most.merges || action.kind == ActionKind::kBackward;
      for (const auto count : {&Flight::kept, &Flight::kept_for_weights, &Flight::handed,
                               &Flight::checkpointed, &Flight::entered})
        most.*count = std::max(most.*count, has.*count);
      end(action, has);
    }
  }
  size_t counted(int stage, int micro_batch) const {
    const size_t before = by_replica_ ? static_cast<size_t>(schedule_.replica(micro_batch)) : 0;
    return before * stages_ + static_cast<size_t>(stage);
  }
  static void begin(const Action& action, bool is_recomputed, Flight& has) {
    const bool forward = action.kind == ActionKind::kForward;
    const bool again = action.kind == ActionKind::kRecompute;
    if (forward) ++has.entered;
    if (forward && is_recomputed) ++has.checkpointed;
    if (again) --has.checkpointed;
    if (again || (forward && !is_recomputed)) {
      ++has.kept;
      ++has.kept_for_weights;
    }
    if (action.kind == ActionKind::kInputGradient) ++has.handed;
  }
  static void end(const Action& action, Flight& has) {
    const bool both = action.kind == ActionKind::kBackward;
    const bool weights = action.kind == ActionKind::kWeightGradient;
    if (both || action.kind == ActionKind::kInputGradient) --has.kept;
    if (weights) --has.handed;
    if (both || weights) {
      --has.kept_for_weights;
      --has.entered;
    }
  }

  const Schedule& schedule_;
  const size_t stages_;  // of the pipeline
  const bool by_replica_;
  std::vector<Flight> flights_;
  std::set<std::pair<size_t, int>> recomputed_;  // groups and their micro-batches, of any row
};

bool splits_of(const Schedule& schedule) {
  for (const std::vector<Action>& row : schedule.rows)
    for (const Action& action : row)
      if (action.kind == ActionKind::kInputGradient) return true;
  return false;
}

class OfRows final : public partitioner::InFlight {
 public:
  explicit OfRows(Schedule schedule)
      : schedule_(std::move(schedule)),
        splits_(splits_of(schedule_)),
        trains_(schedule_.trains()) {}

  std::vector<Flight> of(const Pipeline& pipeline, int micro_batches) const override {
    return FlightCount(as_it_runs(step_of(schedule_, micro_batches)), pipeline).of_all();
  }
  std::vector<int> held(const Model& model, const Plan& plan,
                        const std::vector<Part>& parts) const override {
    const Schedule schedule = as_it_runs(step_of(schedule_, plan.micro_batches));
    if (!check_order(schedule).empty()) return {};
    return held_by_routes(schedule, model, plan, parts);
  }
  bool splits() const override { return splits_; }
  bool trains() const override { return trains_; }
  bool updates_within() const override { return schedule_.endless() || schedule_.updates_within(); }

 private:
  Schedule schedule_;
  bool splits_;
  bool trains_;
};

class OfName final : public partitioner::InFlight {
 public:
  explicit OfName(std::string name)
      : name_(std::move(name)), splits_(splits_weights(name_)), trains_(schedmp::trains(name_)) {}

  std::vector<Flight> of(const Pipeline& pipeline, int micro_batches) const override {
    return FlightCount(as_it_runs(make_step(name_, pipeline, micro_batches)), pipeline).of_all();
  }
  std::vector<int> held(const Model& model, const Plan& plan,
                        const std::vector<Part>& parts) const override {
    return held_by_routes(make_schedule(name_, model, plan), model, plan, parts);
  }
  bool splits() const override { return splits_; }
  bool trains() const override { return trains_; }
  bool updates_within() const override { return is_endless(name_); }

 private:
  std::string name_;
  bool splits_;
  bool trains_;
};

}  // namespace

std::unique_ptr<partitioner::InFlight> in_flight_of(const std::string& schedule) {
  return std::make_unique<OfName>(schedule);
}

std::unique_ptr<partitioner::InFlight> in_flight_of(const Schedule& schedule) {
  if (const auto why = why_it_cannot_run(step_of(schedule, schedule.micro_batches)))
    throw Error(ErrorCode::kUsage,
                kerf::format("schedule {} cannot be planned for: {}", schedule.name, *why));
  return std::make_unique<OfRows>(schedule);
}

}  // namespace kerf::schedmp
