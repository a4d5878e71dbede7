#include "apps/report/traced_step.h"

#include <algorithm>
#include <cmath>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr size_t kMissedTold = 10;
constexpr double kMostSeconds = 1e9;

void check_times(const TracedStep::Times& times, const std::string& where) {
  if (!(times.begin >= 0 && times.begin <= times.end && times.end <= kMostSeconds &&
        times.busy >= 0 && times.busy <= kMostSeconds))
    throw Error(ErrorCode::kUsage,
                format("begin {}, end {} and busy {} are no times of an action", times.begin,
                       times.end, times.busy),
                where);
}

void check_idle(const TracedStep::Idle& idle, const std::string& where) {
  for (const double each :
       {idle.fill, idle.dependency, idle.communication, idle.imbalance, idle.within, idle.drain})
    if (!(std::abs(each) <= kMostSeconds))
      throw Error(ErrorCode::kUsage, format("{} is no time", each), where);
}

}  // namespace

std::vector<TracedStep::Missed> TracedStep::missed() const {
  std::vector<Missed> all;
  for (const Worker& worker : workers)
    for (const Done& each : worker.actions) {
      if (!each.priced) continue;
      const double predicted = each.predicted.busy;
      const double measured = each.measured.busy;
      all.push_back({worker.worker, each.action, predicted, measured,
                     predicted > 0 ? std::optional(measured / predicted) : std::nullopt});
    }
  std::stable_sort(all.begin(), all.end(), [](const Missed& a, const Missed& b) {
    return std::abs(a.measured_seconds - a.predicted_seconds) >
           std::abs(b.measured_seconds - b.predicted_seconds);
  });
  all.resize(std::min(all.size(), kMissedTold));
  return all;
}

void check_traced(const TracedStep& traced, size_t workers, const std::string& where) {
  if (traced.workers.size() != workers)
    throw Error(ErrorCode::kUsage,
                format("a step of {} workers, and the run has {}", traced.workers.size(), workers),
                where);
  check_times({0, traced.predicted_seconds, 0}, where + ".predicted_seconds");
  check_times({0, traced.measured_seconds, 0}, where + ".measured_seconds");
  for (size_t i = 0; i < workers; ++i) {
    const TracedStep::Worker& worker = traced.workers[i];
    const std::string place = format("{}.workers[{}]", where, i);
    if (worker.worker != static_cast<int>(i))
      throw Error(ErrorCode::kUsage, format("worker {} stands out of order", worker.worker), place);
    check_idle(worker.predicted, place + ".predicted_idle");
    check_idle(worker.measured, place + ".measured_idle");
    for (size_t j = 0; j < worker.actions.size(); ++j) {
      const std::string action = format("{}.actions[{}]", place, j);
      check_times(worker.actions[j].predicted, action + ".predicted");
      check_times(worker.actions[j].measured, action + ".measured");
    }
  }
}

}  // namespace kerf::apps
