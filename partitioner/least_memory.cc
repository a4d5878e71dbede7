#include "partitioner/least_memory.h"

#include <algorithm>
#include <set>

#include "partitioner/gradients.h"
#include "partitioner/kept_values.h"

namespace kerf::partitioner {

int64_t least_memory(const Model& model, const PlanRequest& request) {
  const Gradients gradients(model, request.trains);
  const auto bytes_of = [&](ValueId value, int64_t samples) {
    return static_cast<int64_t>(model.value(value).spec.bytes(samples));
  };
  int64_t persistent = 0;
  int64_t of_gradients = 0;
  for (const ValueId id : model.kept_values()) {
    const int64_t bytes = model.uses(id).empty() ? 0 : bytes_of(id, 0);
    persistent += bytes;
    if (!gradients.of(id)) continue;
    persistent += bytes * request.setting.optimizer_states;
    of_gradients += bytes;
  }
  std::set<ValueId> kept;
  for (NodeId node = 0; node < model.nodes(); ++node)
    if (gradients.through(node)) kept.merge(kept_by(model, node));
  int64_t of_values = 0;
  for (const ValueId value : kept) of_values += bytes_of(value, request.largest_micro_batch());
  return persistent + (request.micro_batches == 1 ? std::max(of_gradients, of_values)
                                                  : of_gradients + of_values);
}

bool exceeds_all_caps(int64_t bytes, const PlanRequest& request) {
  int64_t left = bytes;
  for (int worker = 0; worker < request.workers_bound(); ++worker) {
    const auto cap = request.cap_of(worker);
    if (!cap || *cap >= left) return false;
    left -= *cap;
  }
  return true;
}

int64_t finest_step(const Model& model, int64_t fits) {
  constexpr int64_t kParts = 512;
  return model.nodes() > kFewNodes ? fits / kParts : 0;
}

bool is_out_of_reach(const Model& model, const PlanRequest& request) {
  return model.nodes() > kFewNodes && exceeds_all_caps(least_memory(model, request), request);
}

}  // namespace kerf::partitioner
