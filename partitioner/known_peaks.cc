#include "partitioner/known_peaks.h"

#include <algorithm>

#include "partitioner/connected_plan.h"

namespace kerf::partitioner {
namespace {

int worker_of(const PlanRequest& request, const Assignment& assignment, size_t stage) {
  const int part = assignment.stages[stage].parts.front();
  return assignment.binding.empty() ? request.worker_of(part)
                                    : assignment.binding[static_cast<size_t>(part)];
}

// Stage -> bytes of the fullest of its workers.
std::vector<int64_t> of_stages(const Plan& plan, const std::vector<int64_t>& of_workers) {
  std::vector<int64_t> peaks;
  for (const Stage& stage : plan.stages) {
    int64_t& most = peaks.emplace_back(0);
    for (const int part : stage.parts) {
      const auto worker = static_cast<size_t>(plan.binding[static_cast<size_t>(part)]);
      most = std::max(most, of_workers[worker]);
    }
  }
  return peaks;
}

// Whether there was a stage above its cap, which then makes gradients of weights in between.
bool interleave_above(const PlanRequest& caps, const std::vector<int64_t>& peaks,
                      Assignment& assignment) {
  bool any = false;
  for (size_t s = 0; s < peaks.size(); ++s) {
    const auto cap = caps.cap_of(worker_of(caps, assignment, s));
    if (!cap || peaks[s] <= *cap) continue;
    assignment.stages[s].interleaved = any = true;
  }
  return any;
}

}  // namespace

std::vector<int64_t> KnownPeaks::of(Assignment assignment, const PlanRequest& caps) {
  std::vector<int64_t> peaks = known(assignment);
  if (!interleave_above(caps, peaks, assignment)) return peaks;
  return known(assignment);
}

const std::vector<int64_t>& KnownPeaks::known(const Assignment& assignment) {
  Division division;
  for (const Stage& stage : assignment.stages) {
    division.first.push_back(stage.nodes);
    division.second.push_back(stage.interleaved);
  }
  division.second.insert(division.second.end(), assignment.binding.begin(),
                         assignment.binding.end());
  const auto [found, fresh] = peaks_.try_emplace(std::move(division));
  if (fresh) {
    Plan plan = connected_plan(model_, request_, assignment);
    found->second = of_stages(plan, predict_peaks(model_, plan, request_, in_flight_));
  }
  return found->second;
}

}  // namespace kerf::partitioner
