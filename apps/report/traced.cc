#include "apps/report/traced.h"

#include <algorithm>
#include <utility>

#include "schedmp/idle.h"

namespace kerf::apps {

using schedmp::Moment;

namespace {

using Rows = std::vector<std::vector<Moment>>;

// Of the actions of micro-batches, so that both are of the same: updates are not priced.
std::vector<TracedStep::Idle> idle_times(const schedmp::Schedule& schedule,
                                         const partitioner::StageGraph& graph, const Rows& rows,
                                         bool goes_on) {
  schedmp::Schedule shown = schedule;
  shown.prologue.clear();
  shown.epilogue.clear();
  schedmp::Unfolded unfolded;
  std::vector<double> within;
  for (size_t worker = 0; worker < rows.size(); ++worker) {
    shown.rows[worker].clear();
    unfolded.rows.emplace_back();
    within.push_back(0);
    for (const Moment& each : rows[worker]) {
      if (each.action.micro_batch < 0) continue;
      shown.rows[worker].push_back(each.action);
      shown.micro_batches = std::max(shown.micro_batches, each.action.micro_batch + 1);
      unfolded.rows.back().push_back({each.begin, each.end});
      within.back() += std::max(0.0, each.end - each.begin - each.busy);
    }
  }
  std::vector<TracedStep::Idle> all;
  const std::vector<schedmp::Idle> idle =
      goes_on ? schedmp::idle_of_period(shown, schedule.micro_batches, graph, unfolded)
              : schedmp::idle_of(shown, graph, unfolded);
  for (size_t worker = 0; worker < idle.size(); ++worker)
    all.push_back({idle[worker].fill, idle[worker].dependency, idle[worker].communication,
                   idle[worker].imbalance, within[worker], idle[worker].drain});
  return all;
}

TracedStep::Times times_of(const Moment& moment) { return {moment.begin, moment.end, moment.busy}; }

}  // namespace

ShownTimeline shown(const schedmp::Timeline& timeline) {
  ShownTimeline shown;
  for (const std::vector<Moment>& lists : timeline.rows) {
    std::vector<Moment>& row = shown.rows.emplace_back();
    std::vector<size_t>& place = shown.place.emplace_back();
    for (const Moment& each : lists) {
      if (!row.empty() && row.back().action == each.action) {
        row.back().end = each.end;
        row.back().busy += each.busy;
      } else {
        row.push_back(each);
      }
      place.push_back(row.size() - 1);
    }
  }
  return shown;
}

TracedStep traced_step(const schedmp::Schedule& schedule, const partitioner::StageGraph& graph,
                       const Rows& predicted, const Rows& measured, const StepKind& of_step) {
  TracedStep traced{of_step.step,
                    seconds_of(predicted, of_step.goes_on),
                    seconds_of(measured, of_step.goes_on),
                    {}};
  const auto predicted_idle = idle_times(schedule, graph, predicted, of_step.goes_on);
  const auto measured_idle = idle_times(schedule, graph, measured, of_step.goes_on);
  for (size_t worker = 0; worker < predicted.size(); ++worker) {
    TracedStep::Worker& of = traced.workers.emplace_back();
    of.worker = static_cast<int>(worker);
    of.predicted = predicted_idle[worker];
    of.measured = measured_idle[worker];
    for (size_t i = 0; i < predicted[worker].size(); ++i) {
      const Moment& foretold = predicted[worker][i];
      of.actions.push_back({to_string(foretold.action), foretold.action.micro_batch >= 0,
                            times_of(foretold), times_of(measured[worker][i])});
    }
  }
  return traced;
}

}  // namespace kerf::apps
