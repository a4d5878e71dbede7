#include "partitioner/known_peaks.h"

#include <algorithm>

#include "partitioner/sources.h"
#include "partitioner/sums.h"

namespace kerf::partitioner {
namespace {

bool is_above(const PlanRequest& caps, const std::vector<int64_t>& of_workers) {
  for (size_t worker = 0; worker < of_workers.size(); ++worker)
    if (const auto cap = caps.cap_of(static_cast<int>(worker)); cap && of_workers[worker] > *cap)
      return true;
  return false;
}

// Stage -> that of the fullest of its workers.
std::vector<int64_t> by_stage(const std::vector<Stage>& stages, const std::vector<int>& binding,
                              const std::vector<int64_t>& of_workers) {
  std::vector<int64_t> peaks;
  for (const Stage& stage : stages) {
    int64_t& most = peaks.emplace_back(0);
    for (const int part : stage.parts)
      most = std::max(most, of_workers[static_cast<size_t>(binding[static_cast<size_t>(part)])]);
  }
  return peaks;
}

}  // namespace

bool interleave_above(const PlanRequest& caps, const std::vector<int64_t>& of_workers,
                      const std::vector<int>& binding, std::vector<Stage>& stages) {
  bool any = false;
  for (Stage& stage : stages)
    for (const int part : stage.parts) {
      const int worker = binding[static_cast<size_t>(part)];
      const auto cap = caps.cap_of(worker);
      if (!cap || of_workers[static_cast<size_t>(worker)] <= *cap) continue;
      stage.interleaved = any = true;
    }
  return any;
}

std::vector<int64_t> KnownPeaks::of(Assignment assignment, const PlanRequest& caps) {
  const std::vector<int>& binding = binding_of(assignment);
  const std::vector<int64_t> least = least_of_orders(assignment);
  if (is_above(caps, least)) return by_stage(assignment.stages, binding, least);
  const std::vector<int64_t>* exact = &known(assignment, PeakFigure::kExact);
  if (interleave_above(caps, *exact, binding, assignment.stages))
    exact = &known(assignment, PeakFigure::kExact);
  return by_stage(assignment.stages, binding, *exact);
}

// Interleaved, a stage has fewer gradients of outputs at once. Only where gradients of weights come
// within a pass, those of its one micro-batch, are they there for longer, too.
std::vector<int64_t> KnownPeaks::least_of_orders(const Assignment& assignment) {
  Assignment interleaved = assignment;
  for (Stage& stage : interleaved.stages) stage.interleaved = true;
  std::vector<int64_t> least = known(interleaved, PeakFigure::kLeast);
  if (request_.micro_batches > 1) return least;
  const std::vector<int64_t>& as_they_are = known(assignment, PeakFigure::kLeast);
  for (size_t worker = 0; worker < least.size(); ++worker)
    least[worker] = std::min(least[worker], as_they_are[worker]);
  return least;
}

std::vector<int64_t> KnownPeaks::up_to(double most, const Assignment& assignment) {
  const std::vector<int64_t>& least = known(assignment, PeakFigure::kLeast);
  const bool is_above = static_cast<double>(std::ranges::max(least)) > most;
  return by_stage(assignment.stages, binding_of(assignment),
                  is_above ? least : known(assignment, PeakFigure::kExact));
}

const std::vector<int64_t>& KnownPeaks::known(const Assignment& assignment, PeakFigure figure) {
  Division division;
  for (const Stage& stage : assignment.stages) {
    division.first.push_back(stage.nodes);
    division.second.push_back(stage.interleaved);
  }
  division.second.insert(division.second.end(), assignment.binding.begin(),
                         assignment.binding.end());
  division.second.push_back(static_cast<int>(figure));
  const auto [found, fresh] = peaks_.try_emplace(std::move(division));
  if (fresh) found->second = peaks_of(assignment, figure);
  return found->second;
}

std::vector<int64_t> KnownPeaks::peaks_of(const Assignment& assignment, PeakFigure figure) const {
  Plan plan = frame_;
  plan.stages = assignment.stages;
  plan.division = assignment.division;
  plan.binding = binding_of(assignment);
  const Sources sources(model_, plan.division, stages_of_parts(plan));
  const Sums sums(sources);
  add_connectors(sums, plan);
  return predict_peaks(sums, plan, request_, in_flight_, figure);
}

}  // namespace kerf::partitioner
