// The feature cut: one stage, every operator divided over all workers by feature (SINGA's
// partition_dim 1; tensor parallelism in later words).
//
//   worker 0   fc1[0-127]    relu1[0-127]    fc2[0-127]    ...  loss
//   worker 1   fc1[128-255]  relu1[128-255]  fc2[128-255]  ...
//
// A boundary of one-to-all operators costs an all-gather forward and a reduce-scatter back:
// F (F - 1) messages each way.
#include "partitioner/cuts/idle_parts.h"
#include "partitioner/cuts/spread.h"

namespace kerf::partitioner {

std::vector<Rewrite> rewrites_for_feature(const Model& model, const PlanRequest& request) {
  return rewrites_for_spread(model, request, {all_parts(request)},
                             [](NodeId, size_t) { return true; });
}

Assignment cut_feature(const Model& model, const PlanRequest& request) {
  Stage all = stage_of_all(model, request);
  const std::vector<std::optional<ops::Layout>> none(static_cast<size_t>(model.nodes()));
  Assignment assignment =
      spread_all(model, request, {std::move(all)}, even_share(model, request), none);
  if (const auto idle = idle_parts(model, request, assignment.division); !idle.empty())
    refuse_idle(request, idle.front(),
                format("{}; {}",
                       has_a_slow_device(request, idle.front(), all_parts(request))
                           ? kTooSlowForUnits
                           : "no operator has features for it",
                       without_idle(request, idle)));
  return assignment;
}

}  // namespace kerf::partitioner
