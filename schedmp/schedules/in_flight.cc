// Micro-batches in flight, counted in rows.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/error.h"
#include "schedmp/schedules.h"
#include "schedmp/steps.h"
#include "schedmp/verify.h"
#include "schedmp/versions.h"

namespace kerf::schedmp {

namespace {

using partitioner::Flight;

// By stage: how many micro-batches it has between their F and their I, between F and their last
// gradient, and between I and W, on any of its workers, at most.
class FlightCount {
 public:
  // Of the steps of a run.
  explicit FlightCount(const Schedule& schedule) : flights(static_cast<size_t>(schedule.stages())) {
    if (schedule.trains()) {
      for (Flight& flight : flights) flight.merges = false;
      for (const std::vector<Action>& row : in_full_flight(schedule).rows) count(row);
    } else {
      for (Flight& flight : flights)  // nothing is kept for gradients
        flight.kept = flight.kept_for_weights = 1;
    }
    for (const auto& [stage, micro_batch] : recomputed_)
      if (static_cast<size_t>(stage) < flights.size())
        ++flights[static_cast<size_t>(stage)].recomputed;
    if (!schedule.updates_within()) return;
    const std::vector<StageVersions> versions = versions_of(schedule);
    const int ahead = ahead_of(schedule);
    for (size_t stage = 0; stage < flights.size(); ++stage) {
      flights[stage].versions = versions[stage].kept;
      flights[stage].ahead = ahead;
    }
  }

  std::vector<Flight> flights;

 private:
  void count(const std::vector<Action>& row) {
    std::map<int, Flight> now;  // by stage
    const std::set<std::pair<int, int>> recomputed = recomputed_in(row);
    recomputed_.insert(recomputed.begin(), recomputed.end());
    for (const Action& action : row) {
      const auto stage = static_cast<size_t>(action.stage);
      if (stage >= flights.size()) continue;
      Flight& has = now[action.stage];
      begin(action, recomputed.contains({action.stage, action.micro_batch}), has);
      // A B between another's I and its W has both for a while.
      const bool both = action.kind == ActionKind::kBackward;
      Flight& most = flights[stage];
      most.merges = most.merges || both;
      most.handed = std::max(most.handed, has.handed + (both && has.handed > 0 ? 1 : 0));
      for (const auto count :
           {&Flight::kept, &Flight::kept_for_weights, &Flight::checkpointed, &Flight::entered})
        most.*count = std::max(most.*count, has.*count);
      end(action, has);
    }
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

  std::set<std::pair<int, int>> recomputed_;  // stages' micro-batches, of any row
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

  // Of stages that the rows lack: all.
  std::vector<Flight> of(const Pipeline& pipeline, int micro_batches) const override {
    std::vector<Flight> flights =
        FlightCount(as_it_runs(step_of(schedule_, micro_batches))).flights;
    flights.resize(static_cast<size_t>(pipeline.graph.stages()),
                   {micro_batches, micro_batches, micro_batches});
    return flights;
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
    return FlightCount(as_it_runs(make_step(name_, pipeline, micro_batches))).flights;
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
