#include "schedmp/idle.h"

#include <algorithm>

#include "schedmp/staircase.h"

namespace kerf::schedmp {

using partitioner::StageGraph;

namespace {

// When the last member of a stage is done with a micro-batch.
class Ends {
 public:
  Ends(const Schedule& schedule, const Unfolded& unfolded)
      : micro_batches_(static_cast<size_t>(schedule.micro_batches)),
        forward_(schedule.groups.size() * micro_batches_),
        gradient_(forward_.size()) {
    for (size_t worker = 0; worker < unfolded.rows.size(); ++worker)
      for (size_t i = 0; i < unfolded.rows[worker].size(); ++i) {
        const Action& action = schedule.rows[worker][i];
        if (!is_awaited(action)) continue;
        double& end = of(action.stage, action.kind == ActionKind::kForward, action.micro_batch);
        end = std::max(end, unfolded.rows[worker][i].end);
      }
  }

  static bool is_awaited(const Action& action) {
    return action.kind == ActionKind::kForward || action.kind == ActionKind::kBackward ||
           action.kind == ActionKind::kInputGradient;
  }

  // When all that the action waits for was computed.
  double computed(const StageGraph& graph, const Action& action) {
    if (!is_awaited(action) || action.stage >= graph.stages()) return 0;
    const bool forward = action.kind == ActionKind::kForward;
    const auto stage = static_cast<size_t>(action.stage);
    double last = 0;
    for (const int other : forward ? graph.reads[stage] : graph.gradients[stage])
      last = std::max(last, of(other, forward, action.micro_batch));
    return last;
  }

 private:
  double& of(int stage, bool forward, int micro_batch) {
    const size_t index =
        static_cast<size_t>(stage) * micro_batches_ + static_cast<size_t>(micro_batch);
    return (forward ? forward_ : gradient_)[index];
  }

  size_t micro_batches_;
  std::vector<double> forward_, gradient_;  // by stage, by micro-batch
};

double work_of(const std::vector<Interval>& row) {
  double work = 0;
  for (const Interval& each : row) work += each.end - each.begin;
  return work;
}

}  // namespace

std::vector<Idle> idle_of(const Schedule& schedule, const StageGraph& graph,
                          const Unfolded& unfolded) {
  Ends ends(schedule, unfolded);
  const double makespan = bubble(schedule, unfolded).makespan;
  double most_work = 0;
  for (const auto& row : unfolded.rows) most_work = std::max(most_work, work_of(row));
  std::vector<Idle> all;
  for (size_t worker = 0; worker < unfolded.rows.size(); ++worker) {
    Idle idle;
    double now = -1;
    for (size_t i = 0; i < unfolded.rows[worker].size(); ++i) {
      const Action& action = schedule.rows[worker][i];
      const Interval& each = unfolded.rows[worker][i];
      if (action.micro_batch < 0) continue;
      if (now < 0) {
        idle.fill = each.begin;
      } else {
        const double computed = std::clamp(ends.computed(graph, action), now, each.begin);
        idle.dependency += computed - now;
        idle.communication += each.begin - computed;
      }
      now = each.end;
    }
    idle.drain = makespan - std::max(now, 0.0);
    idle.imbalance = std::min(idle.dependency, most_work - work_of(unfolded.rows[worker]));
    idle.dependency -= idle.imbalance;
    all.push_back(idle);
  }
  return all;
}

double makespan_of_95(const Schedule& schedule, const StageGraph& graph, ActionCosts costs,
                      int steps) {
  std::vector<double> makespans;
  for (costs.step = 0; costs.step < steps; ++costs.step)
    makespans.push_back(bubble(schedule, graph, costs).makespan);
  std::sort(makespans.begin(), makespans.end());
  return makespans[static_cast<size_t>((steps * 95 + 99) / 100 - 1)];
}

}  // namespace kerf::schedmp
