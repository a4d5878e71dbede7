// What divisions take, whatever the caps: each is looked at once, however often searches under one
// cap after another come back to it. Exactly only what may be within what is asked for: the least
// that a division can take is known in a fraction of the time. Used by one thread.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "partitioner/connected_plan.h"

namespace kerf::partitioner {

// Where a stage leaves first what leaves it, all of its outputs' gradients live at once. The stages
// of workers that are above their cap make gradients of weights in between instead; whether there
// are any.
bool interleave_above(const PlanRequest& caps, const std::vector<int64_t>& of_workers,
                      const std::vector<int>& binding, std::vector<Stage>& stages);

class KnownPeaks {
 public:
  // Borrows the model and `in_flight`; caps of the request do not count. Divisions are told apart
  // by their stages and the binding: of other cuts than by layer one each has its own KnownPeaks.
  KnownPeaks(const Model& model, const PlanRequest& request, const InFlight& in_flight)
      : model_(model),
        request_(request),
        in_flight_(in_flight),
        frame_(bound_plan(model, request, {})) {}

  // Stage -> bytes of the fullest of its workers: as predicted_plan() has it under these caps;
  // where a worker is above its cap, interleaved or not, at the least of all.
  std::vector<int64_t> of(Assignment assignment, const PlanRequest& caps);
  // The same of stages as they are; where one is above `most`, at the least.
  std::vector<int64_t> up_to(double most, const Assignment& assignment);

 private:
  // Nodes of each stage; of each whether it is interleaved, the binding, and the figure.
  using Division = std::pair<std::vector<std::vector<NodeId>>, std::vector<int>>;

  const std::vector<int>& binding_of(const Assignment& assignment) const {
    return assignment.binding.empty() ? frame_.binding : assignment.binding;
  }
  // By worker.
  std::vector<int64_t> least_of_orders(const Assignment& assignment);
  const std::vector<int64_t>& known(const Assignment& assignment, PeakFigure figure);
  std::vector<int64_t> peaks_of(const Assignment& assignment, PeakFigure figure) const;

  const Model& model_;
  const PlanRequest request_;
  const InFlight& in_flight_;
  const Plan frame_;  // what plans of all divisions have in common
  std::map<Division, std::vector<int64_t>> peaks_;
};

}  // namespace kerf::partitioner
