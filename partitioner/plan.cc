#include "partitioner/plan.h"

#include <algorithm>
#include <map>

#include "partitioner/replicas.h"
#include "partitioner/traffic.h"

namespace kerf::partitioner {

std::string_view to_string(Minimise minimise) {
  return minimise == Minimise::kTime ? "time" : "forward-flops";
}

Minimise parse_minimise(const std::string& name) {
  for (const Minimise one : {Minimise::kTime, Minimise::kForwardFlops})
    if (name == to_string(one)) return one;
  throw Error(ErrorCode::kUsage,
              format("there is no objective \"{}\"; there are time and forward-flops", name));
}

int Plan::workers_bound() const {
  return binding.empty() ? 0 : 1 + *std::max_element(binding.begin(), binding.end());
}

std::vector<int> Plan::workers_of(const Stage& stage) const {
  std::vector<int> group;
  for (const int part : stage.parts)
    if (const int worker = binding[static_cast<size_t>(part)];
        std::find(group.begin(), group.end(), worker) == group.end())
      group.push_back(worker);
  return group;
}

int Plan::stage_of(NodeId node) const {
  for (size_t s = 0; s < stages.size(); ++s) {
    const std::vector<NodeId>& nodes = stages[s].nodes;
    if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) return static_cast<int>(s);
  }
  return -1;
}

std::vector<int> stages_of_nodes(const Plan& plan, int nodes) {
  std::vector<int> stage_of(static_cast<size_t>(nodes), -1);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (const NodeId node : plan.stages[stage].nodes)
      if (node >= 0 && node < nodes) stage_of[static_cast<size_t>(node)] = static_cast<int>(stage);
  return stage_of;
}

std::vector<int> stages_of_parts(const Plan& plan) {
  std::vector<int> stage_of(plan.binding.size(), -1);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (const int part : plan.stages[stage].parts)
      stage_of[static_cast<size_t>(part)] = static_cast<int>(stage);
  return stage_of;
}

bool is_local(const Plan& plan, const Route& route) {
  return plan.binding[static_cast<size_t>(route.from)] ==
         plan.binding[static_cast<size_t>(route.to)];
}

Traffic traffic_of(const Model& model, const Route& route, const std::map<int64_t, int>& sizes) {
  if (is_of_step(model, route)) return {1, static_cast<int64_t>(message_bytes(model, route, 0))};
  Traffic traffic;
  for (const auto& [samples, count] : sizes) {
    traffic.messages += count;
    traffic.bytes += count * static_cast<int64_t>(message_bytes(model, route, samples));
  }
  return traffic;
}

std::vector<Traffic> predict_traffic(const Model& model, const Plan& plan, int64_t batch,
                                     bool gradients) {
  std::vector<std::map<int64_t, int>> sizes;  // by replica
  for (int replica = 0; replica < plan.replicas(); ++replica)
    sizes.push_back(sizes_of_replica(plan, batch, replica));
  const bool trains = gradients && (!plan.request || plan.request->trains);
  std::vector<Traffic> result;
  for (const Route& route : plan.routes) {
    const bool carried = is_carried(model, route, trains);
    result.push_back(
        carried ? traffic_of(model, route,
                             sizes[static_cast<size_t>(plan.division.replica_of(route.from))])
                : Traffic{});
  }
  return result;
}

void add_traffic(const Model& model, const Plan& plan, std::vector<WorkerPrediction>& workers) {
  const std::vector<Traffic> traffic = predict_traffic(model, plan, plan.batch);
  const auto worker_of = [&](int part) -> WorkerPrediction& {
    return workers[static_cast<size_t>(plan.binding[static_cast<size_t>(part)])];
  };
  for (size_t r = 0; r < plan.routes.size(); ++r) {
    const Route& route = plan.routes[r];
    if (is_local(plan, route)) continue;
    worker_of(route.from).messages += traffic[r].messages;
    worker_of(route.from).bytes_out += traffic[r].bytes;
    worker_of(route.to).bytes_in += traffic[r].bytes;
  }
}

}  // namespace kerf::partitioner
