#include "schedmp/idle.h"

#include <algorithm>
#include <limits>

#include "schedmp/staircase.h"

namespace kerf::schedmp {

using partitioner::StageGraph;

namespace {

// What follows itself: once so many micro-batches later, a period of time later.
struct Repeat {
  int micro_batches = 0;
  double time = 0;
};

// When the last member of a stage is done with a micro-batch.
class Ends {
 public:
  Ends(const Schedule& schedule, const Unfolded& unfolded, const Repeat& repeat)
      : repeat_(repeat),
        micro_batches_(static_cast<size_t>(schedule.micro_batches)),
        forward_(schedule.groups.size() * micro_batches_),
        gradient_(forward_.size()) {
    for (size_t worker = 0; worker < unfolded.rows.size(); ++worker)
      for (size_t i = 0; i < unfolded.rows[worker].size(); ++i) {
        const Action& action = schedule.rows[worker][i];
        if (!is_awaited(action)) continue;
        const bool forward = action.kind == ActionKind::kForward;
        double& end = (forward ? forward_ : gradient_)[index(action.stage, action.micro_batch)];
        end = std::max(end, unfolded.rows[worker][i].end);
      }
  }

  static bool is_awaited(const Action& action) {
    return action.kind == ActionKind::kForward || action.kind == ActionKind::kBackward ||
           action.kind == ActionKind::kInputGradient;
  }

  // When all that the action waits for was computed; long ago, if for nothing.
  double computed(const StageGraph& graph, const Action& action) const {
    double last = std::numeric_limits<double>::lowest();
    if (!is_awaited(action) || action.stage >= graph.stages()) return last;
    const bool forward = action.kind == ActionKind::kForward;
    const auto stage = static_cast<size_t>(action.stage);
    for (const int other : forward ? graph.reads[stage] : graph.gradients[stage])
      last = std::max(last, end(other, forward, action.micro_batch));
    return last;
  }

 private:
  // What is not in these rows was computed in those before, as in these for the step after.
  double end(int stage, bool forward, int micro_batch) const {
    const std::vector<double>& ends = forward ? forward_ : gradient_;
    const double here = ends[index(stage, micro_batch)];
    const int later = micro_batch + repeat_.micro_batches;
    if (here > 0 || repeat_.micro_batches == 0 || static_cast<size_t>(later) >= micro_batches_)
      return here;
    return ends[index(stage, later)] - repeat_.time;
  }
  size_t index(int stage, int micro_batch) const {
    return static_cast<size_t>(stage) * micro_batches_ + static_cast<size_t>(micro_batch);
  }

  Repeat repeat_;
  size_t micro_batches_;
  std::vector<double> forward_, gradient_;  // by stage, by micro-batch
};

double work_of(const std::vector<Interval>& row) {
  double work = 0;
  for (const Interval& each : row) work += each.end - each.begin;
  return work;
}

double most_work_of(const Unfolded& unfolded) {
  double most = 0;
  for (const auto& row : unfolded.rows) most = std::max(most, work_of(row));
  return most;
}

// A row, which waits from its begin to its end.
class Row {
 public:
  Row(const std::vector<Action>& actions, const std::vector<Interval>& times) {
    for (size_t i = 0; i < times.size(); ++i)
      if (actions[i].micro_batch >= 0) row_.push_back({&actions[i], &times[i]});
    work_ = work_of(times);
  }

  bool empty() const { return row_.empty(); }
  double begin() const { return empty() ? 0 : row_.front().time->begin; }
  double end() const { return empty() ? 0 : row_.back().time->end; }

  // Between its actions; where it goes on, also between its last one and the next row's first.
  Idle waits(const Ends& ends, const StageGraph& graph, const Repeat& repeat,
             double most_work) const {
    Idle idle;
    double now = repeat.micro_batches > 0 ? std::min(begin(), end() - repeat.time) : begin();
    for (const auto& [action, time] : row_) {
      const double computed = std::clamp(ends.computed(graph, *action), now, time->begin);
      idle.dependency += computed - now;
      idle.communication += time->begin - computed;
      now = time->end;
    }
    idle.imbalance = std::min(idle.dependency, most_work - work_);
    idle.dependency -= idle.imbalance;
    return idle;
  }

 private:
  struct Timed {
    const Action* action;
    const Interval* time;
  };
  std::vector<Timed> row_;  // of micro-batches
  double work_ = 0;
};

std::vector<Row> rows_of(const Schedule& schedule, const Unfolded& unfolded) {
  std::vector<Row> rows;
  for (size_t worker = 0; worker < unfolded.rows.size(); ++worker)
    rows.emplace_back(schedule.rows[worker], unfolded.rows[worker]);
  return rows;
}

}  // namespace

std::vector<Idle> idle_of(const Schedule& schedule, const StageGraph& graph,
                          const Unfolded& unfolded) {
  const Ends ends(schedule, unfolded, {});
  const double makespan = bubble(schedule, unfolded).makespan;
  const double most_work = most_work_of(unfolded);
  std::vector<Idle> all;
  for (const Row& row : rows_of(schedule, unfolded)) {
    Idle& idle = all.emplace_back(row.waits(ends, graph, {}, most_work));
    idle.fill = row.begin();
    idle.drain = makespan - row.end();
  }
  return all;
}

std::vector<Idle> idle_of_period(const Schedule& schedule, int micro_batches,
                                 const StageGraph& graph, const Unfolded& unfolded) {
  const std::vector<Row> rows = rows_of(schedule, unfolded);
  Repeat repeat{micro_batches};
  for (const Row& row : rows) repeat.time = std::max(repeat.time, row.end() - row.begin());
  const Ends ends(schedule, unfolded, repeat);
  const double most_work = most_work_of(unfolded);
  std::vector<Idle> all;
  for (const Row& row : rows) all.push_back(row.waits(ends, graph, repeat, most_work));
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
