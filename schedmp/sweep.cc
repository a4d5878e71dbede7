#include "schedmp/sweep.h"

#include <algorithm>

#include "runtime/error.h"
#include "schedmp/kept.h"
#include "schedmp/period.h"
#include "schedmp/schedules.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

namespace {

// Of a point, about: an endless schedule is unrolled for twice as many periods as a mean takes, and
// for those that fill it.
double actions_of(const std::string& schedule, int workers, int micro_batches, int chunks) {
  if (chunks == 0) chunks = shape_of(schedule).chunks;
  const double stages = static_cast<double>(workers) * chunks;
  const double periods = is_endless(schedule) ? 4.0 * (workers + kMeanPeriods) : 1;
  return 3.0 * stages * (micro_batches + 1) * periods;
}

void simulate_endless(const Schedule& schedule, const partitioner::StageGraph& graph,
                      const ActionCosts& costs, SweptPoint& point) {
  point.endless = true;
  const int64_t periods = proving_periods(schedule) + kMeanPeriods;
  if (schedule.actions() > kMostUnfolded / periods) {
    point.refused =
        kerf::format("{} periods of it are more than {} actions", periods, kMostUnfolded);
    return;
  }
  const Period period = period_of(schedule, graph, costs);
  point.bubble = {period.takes, period.bubble, 0};
  const std::vector<int> peaks =
      peak_activations(unrolled(schedule, static_cast<int>(proving_periods(schedule)) + 1));
  point.peak_activations = *std::max_element(peaks.begin(), peaks.end());
}

void simulate_point(const Sweep& sweep, SweptPoint& point) {
  const ActionCosts& costs = sweep.costs[point.costs];
  const Pipeline pipeline = chain_of_shape(point.schedule, point.workers, sweep.chunks);
  const int stages = pipeline.graph.stages();
  if (!costs.stages.empty() && std::ssize(costs.stages) != stages) {
    point.refused = kerf::format("the costs are of {}, and it has {}",
                                 plural(std::ssize(costs.stages), "stage"), stages);
    return;
  }
  const Schedule schedule =
      make_schedule(point.schedule, pipeline, point.micro_batches, costs, kMostUnfolded);
  if (schedule.endless()) return simulate_endless(schedule, pipeline.graph, costs, point);
  point.bubble = bubble(schedule, pipeline.graph, costs);
  const std::vector<int> peaks = peak_activations(schedule);
  point.peak_activations = *std::max_element(peaks.begin(), peaks.end());
}

template <class Visit>
void for_every_point(const Sweep& sweep, const Visit& visit) {
  for (const std::string& schedule : sweep.schedules)
    for (const int workers : sweep.workers)
      for (size_t costs = 0; costs < sweep.costs.size(); ++costs)
        for (const int micro_batches : sweep.micro_batches)
          visit(SweptPoint{schedule, workers, micro_batches, costs, {}, false, {}, 0});
}

}  // namespace

size_t Sweep::points() const {
  return schedules.size() * workers.size() * micro_batches.size() * costs.size();
}

double most_actions(const Sweep& sweep) {
  double actions = 0;
  for_every_point(sweep, [&](const SweptPoint& point) {
    actions += actions_of(point.schedule, point.workers, point.micro_batches, sweep.chunks);
  });
  return actions;
}

std::vector<SweptPoint> swept(const Sweep& sweep, const std::function<void(double)>& sign) {
  for (const std::string& schedule : sweep.schedules) shape_of(schedule);
  const double all = most_actions(sweep);
  double done = 0;
  std::vector<SweptPoint> points;
  for_every_point(sweep, [&](SweptPoint point) {
    sign(done / all);
    done += actions_of(point.schedule, point.workers, point.micro_batches, sweep.chunks);
    try {
      simulate_point(sweep, point);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      point.refused = error.message();
    }
    points.push_back(std::move(point));
  });
  return points;
}

}  // namespace kerf::schedmp
