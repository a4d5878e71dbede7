#include "partitioner/known_peaks.h"

#include <algorithm>

#include "partitioner/connected_plan.h"

namespace kerf::partitioner {
namespace {

int worker_of(const PlanRequest& request, const Assignment& assignment, int part) {
  return assignment.binding.empty() ? request.worker_of(part)
                                    : assignment.binding[static_cast<size_t>(part)];
}

// Whether a worker was above its cap, whose stages then make gradients of weights in between.
bool interleave_above(const PlanRequest& caps, const std::vector<int64_t>& of_workers,
                      Assignment& assignment) {
  bool any = false;
  for (Stage& stage : assignment.stages)
    for (const int part : stage.parts) {
      const int worker = worker_of(caps, assignment, part);
      const auto cap = caps.cap_of(worker);
      if (!cap || of_workers[static_cast<size_t>(worker)] <= *cap) continue;
      stage.interleaved = any = true;
    }
  return any;
}

}  // namespace

std::vector<int64_t> KnownPeaks::of(Assignment assignment, const PlanRequest& caps) {
  const std::vector<int64_t>* of_workers = &known(assignment);
  if (interleave_above(caps, *of_workers, assignment)) of_workers = &known(assignment);
  std::vector<int64_t> peaks;
  for (const Stage& stage : assignment.stages) {
    int64_t& most = peaks.emplace_back(0);
    for (const int part : stage.parts)
      most = std::max(most, (*of_workers)[static_cast<size_t>(worker_of(caps, assignment, part))]);
  }
  return peaks;
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
    found->second =
        predict_peaks(model_, connected_plan(model_, request_, assignment), request_, in_flight_);
  }
  return found->second;
}

}  // namespace kerf::partitioner
