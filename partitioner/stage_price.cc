#include "partitioner/stage_price.h"

#include <algorithm>

namespace kerf::partitioner {

Work node_work(const Model& model, const PlanRequest& request, NodeId node,
               const ops::Box& iterations) {
  Work work;
  for (const auto& [samples, count] : counted_sizes(request.batch, request.micro_batches)) {
    const NodeCost cost =
        node_cost(model, node, iterations, request.largest_micro_batch(), samples, request.speed);
    const bool time = request.minimise == Minimise::kTime;
    work.forward += count * (time ? cost.forward_seconds : cost.work.forward_flops);
    if (time) work.backward += count * (cost.input_gradient_seconds + cost.weight_gradient_seconds);
  }
  return work;
}

double wire_price(const PlanRequest& request, double bytes, double messages) {
  if (request.minimise != Minimise::kTime) return 0;
  const LinkCosts link = mean_link_costs(request.speed);
  return bytes / link.bytes_per_second + messages * link.seconds;
}

double wire_price(const PlanRequest& request, double bytes, double messages, int worker,
                  int other) {
  if (request.minimise != Minimise::kTime) return 0;
  const LinkCosts link = link_costs(request.speed, worker, other);
  return bytes / link.bytes_per_second + messages * link.seconds;
}

std::vector<double> worker_prices(const Model& model, const Plan& plan,
                                  const PlanRequest& request) {
  std::vector<double> prices;
  const auto worker_of = [&](int part) -> double& {
    const auto worker = static_cast<size_t>(plan.binding[static_cast<size_t>(part)]);
    if (prices.size() <= worker) prices.resize(worker + 1);
    return prices[worker];
  };
  const auto speed_of = [&](int part) {
    return request.speed.capacities.speed_of(plan.binding[static_cast<size_t>(part)]);
  };
  for (const Computation& c : computations(model, plan.division))
    worker_of(c.part) += node_work(model, request, c.node, c.iterations).total() / speed_of(c.part);
  const std::vector<Traffic> traffic = predict_traffic(model, plan, plan.batch);
  for (size_t r = 0; r < plan.routes.size(); ++r) {
    const Route& route = plan.routes[r];
    if (route.value == kStepVector)
      continue;  // 16 bytes a micro-batch and some hundred, of no stage in particular
    const auto bound_to = [&](int part) { return plan.binding[static_cast<size_t>(part)]; };
    if (bound_to(route.from) == bound_to(route.to)) continue;  // no wire between them
    worker_of(route.gradient ? route.from : route.to) += wire_price(
        request, static_cast<double>(traffic[r].bytes), static_cast<double>(traffic[r].messages),
        bound_to(route.from), bound_to(route.to));
  }
  return prices;
}

double bottleneck_of(const Model& model, const Plan& plan, const PlanRequest& request) {
  double most = 0;
  for (const double price : worker_prices(model, plan, request)) most = std::max(most, price);
  return most;
}

}  // namespace kerf::partitioner
