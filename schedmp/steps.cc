#include "schedmp/steps.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/error.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

using partitioner::InstructionList;
using partitioner::Part;

namespace {

constexpr int64_t kDrainShare = 100;  // of the time, one part goes into draining

// Of what runs for a micro-batch; null for kinds that no part has a list for.
InstructionList Part::*list_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return &Part::forward;
    case ActionKind::kInputGradient:
      return &Part::input_gradient;
    case ActionKind::kWeightGradient:
      return &Part::weight_gradient;
    case ActionKind::kBackward:
      return &Part::backward;
    case ActionKind::kRecompute:
      return &Part::recompute;
    default:
      return nullptr;
  }
}

std::vector<Action> row_of(const Schedule& schedule, size_t worker, const Ramps& ramps) {
  if (!schedule.endless()) return schedule.rows[worker];
  std::vector<Action> row;
  if (ramps.fills) row = schedule.prologue[worker];
  const auto& rest = ramps.drains ? schedule.epilogue[worker] : schedule.rows[worker];
  row.insert(row.end(), rest.begin(), rest.end());
  if (ramps.drains)
    std::erase_if(row,
                  [&](const Action& each) { return each.micro_batch >= schedule.micro_batches; });
  return row;
}

// What every step does of these kinds, wherever it does it.
std::set<std::pair<int, int>> of_kind(const std::vector<Action>& row, ActionKind kind,
                                      int micro_batches) {
  std::set<std::pair<int, int>> found;
  for (const Action& action : row)
    if (action.kind == kind) found.emplace(action.stage, action.micro_batch % micro_batches);
  return found;
}

// Writes a row down as lists.
class Lists {
 public:
  Lists(int micro_batches, std::set<std::pair<int, int>> recomputed)
      : micro_batches_(micro_batches), recomputed_(std::move(recomputed)) {}

  void add(const Action& action) {
    if (!is_of_updates(action.kind)) return add_of_micro_batch(action);
    const bool update = action.kind == ActionKind::kUpdate;
    if (action.micro_batch < 0) {
      if (contributed_.insert(action.stage).second) runs_.push_back({action, &Part::contribute});
      if (update) updates_.push_back(action);
    } else if (update) {
      add_within(action);
    }
  }

  // What of the updates is at the row's end. `lag`: what a step came to is heard of a step later.
  std::vector<ListRun> take(bool lag, const Ramps& ramps) {
    add_at_end({&Part::reduce, &Part::conclude}, 0);
    if (lag && !ramps.fills) add_at_end({&Part::update, &Part::fetch}, -1);
    if (!lag || ramps.drains) add_at_end({&Part::update, &Part::fetch}, 0);
    return std::move(runs_);
  }

 private:
  void add_of_micro_batch(const Action& action) {
    ListRun run{action, list_of(action.kind), action.micro_batch / micro_batches_,
                action.micro_batch % micro_batches_};
    if (action.kind == ActionKind::kForward &&
        recomputed_.contains({action.stage, run.micro_batch}))
      run.list = &Part::checkpointed_forward;
    runs_.push_back(run);
  }

  void add_within(const Action& action) {
    ListRun& next = within_[action.stage];
    if (next.list == nullptr) updates_.push_back({action.stage, ActionKind::kUpdate});
    next = {action, &Part::apply, 0, action.micro_batch, next.update, next.first};
    runs_.push_back(next);
    ++next.update;
    next.first = action.micro_batch + 1;
  }

  void add_at_end(std::initializer_list<InstructionList Part::*> lists, int step) {
    for (const auto list : lists)
      for (const Action& action : updates_) runs_.push_back({action, list, step});
  }

  int micro_batches_;
  std::set<std::pair<int, int>> recomputed_;  // stages and their micro-batches
  std::vector<ListRun> runs_;
  std::vector<Action> updates_;
  std::set<int> contributed_;      // stages
  std::map<int, ListRun> within_;  // by stage: its next update within the step
};

}  // namespace

std::optional<std::string> why_it_drains(const Schedule& schedule, int loss) {
  if (!schedule.endless()) return std::nullopt;
  const int micro_batches = schedule.micro_batches;
  if (const int ahead = ahead_of(schedule); ahead > micro_batches)
    return kerf::format("a stage is {} ahead, and a step has {}", plural(ahead, "micro-batch"),
                        micro_batches);
  for (size_t worker = 0; worker < schedule.rows.size(); ++worker) {
    for (const Action& action : schedule.rows[worker]) {
      if (action.micro_batch < micro_batches) continue;
      if (is_of_updates(action.kind))
        return kerf::format("worker {}: {} updates within a step for the next", worker,
                            to_string(action));
      // Where losses are added up there is room for a step's.
      if (action.stage == loss)
        return kerf::format("stage {} has the loss, and computes that of the next step", loss);
    }
    for (const ActionKind kind : {ActionKind::kUpdate, ActionKind::kRecompute})
      if (of_kind(schedule.rows[worker], kind, micro_batches) !=
          of_kind(schedule.epilogue[worker], kind, micro_batches))
        return kerf::format("worker {}: {} stands elsewhere in the last period", worker,
                            to_string(kind));
  }
  return std::nullopt;
}

Schedule as_it_runs(const Schedule& schedule, int loss) {
  return why_it_drains(schedule, loss) ? unrolled(schedule, 1) : schedule;
}

int ahead_of(const Schedule& schedule) {
  if (!schedule.endless()) return 0;
  int most = schedule.micro_batches - 1;
  for (const auto* section : {&schedule.prologue, &schedule.rows})
    for (const std::vector<Action>& row : *section)
      for (const Action& action : row) most = std::max(most, action.micro_batch);
  return most + 1 - schedule.micro_batches;
}

int64_t drain_period_of(const Schedule& schedule) {
  if (!schedule.endless()) return 0;
  const int64_t ahead = kDrainShare * ahead_of(schedule);
  return std::max(kLeastDrainPeriod, (ahead + schedule.micro_batches - 1) / schedule.micro_batches);
}

Schedule in_full_flight(const Schedule& schedule) {
  return schedule.endless() ? unrolled(schedule, 2) : schedule;
}

Steps::Steps(const Schedule& schedule)
    : schedule_(&schedule), under_way_(schedule.micro_batches + ahead_of(schedule)) {}

std::vector<ListRun> Steps::runs(int worker, const Ramps& ramps) const {
  const std::vector<Action> row = row_of(*schedule_, static_cast<size_t>(worker), ramps);
  // A forward of the next step has its recomputation there.
  const auto& all = go_on() ? schedule_->rows[static_cast<size_t>(worker)] : row;
  Lists lists(micro_batches(), of_kind(all, ActionKind::kRecompute, micro_batches()));
  for (const Action& action : row) lists.add(action);
  return lists.take(go_on(), ramps);
}

int Steps::proving_steps() const {
  return go_on() ? static_cast<int>(proving_periods(*schedule_)) : 1;
}

}  // namespace kerf::schedmp
