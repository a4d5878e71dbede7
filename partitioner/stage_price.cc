#include "partitioner/stage_price.h"

#include <algorithm>
#include <map>

#include "partitioner/replicas.h"
#include "partitioner/sources.h"
#include "partitioner/traffic.h"

namespace kerf::partitioner {

Work node_work(const Model& model, const PlanRequest& request, NodeId node,
               const ops::Box& iterations) {
  Work work;
  const int64_t largest = request.largest_micro_batch();
  for (const auto& [samples, count] : request.sizes().counted(request.batch)) {
    const NodeCost cost = node_cost(model, node, iterations, largest, samples, request.speed);
    const bool time = request.minimise == Minimise::kTime;
    work.forward += count * (time ? cost.forward_seconds : cost.work.forward_flops);
    if (time && request.trains)
      work.backward += count * (cost.input_gradient_seconds + cost.weight_gradient_seconds);
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

NodeWorks::NodeWorks(const Model& model, const PlanRequest& request)
    : model_(model), request_(request), known_(static_cast<size_t>(model.nodes())) {}

double NodeWorks::total(NodeId node, const ops::Box& iterations) {
  auto& known = known_[static_cast<size_t>(node)];
  for (const auto& [box, work] : known)
    if (box == iterations) return work;
  known.emplace_back(iterations, node_work(model_, request_, node, iterations).total());
  return known.back().second;
}

namespace {

// `share_of`: of the step's micro-batches those that a part takes, in [0, 1].
template <class ShareOf>
std::vector<double> prices_of(const std::vector<Computation>& calls,
                              const std::vector<Route>& routes, const std::vector<int>& binding,
                              const Model& model, const PlanRequest& request, NodeWorks& works,
                              const ShareOf& share_of) {
  std::vector<double> prices;
  const auto bound_to = [&](int part) {
    return static_cast<size_t>(binding.empty() ? part : binding[static_cast<size_t>(part)]);
  };
  const auto price_of = [&](int part) -> double& {
    const size_t worker = bound_to(part);
    if (prices.size() <= worker) prices.resize(worker + 1);
    return prices[worker];
  };
  const Capacities& capacities = request.speed.capacities;
  for (const Computation& call : calls)
    price_of(call.part) += share_of(call.part) * works.total(call.node, call.iterations) /
                           capacities.speed_of(static_cast<int>(bound_to(call.part)));
  const std::map<int64_t, int> sizes = request.sizes().counted(request.batch);
  for (const Route& route : routes) {
    if (route.value == kStepVector)
      continue;  // 16 bytes a micro-batch and some hundred, of no stage in particular
    if (bound_to(route.from) == bound_to(route.to)) continue;  // no wire between them
    if (!is_carried(model, route, request.trains)) continue;
    const Traffic traffic = traffic_of(model, route, sizes);
    const double share = is_of_step(model, route) ? 1 : share_of(route.from);
    price_of(route.gradient ? route.from : route.to) +=
        wire_price(request, share * static_cast<double>(traffic.bytes),
                   share * static_cast<double>(traffic.messages),
                   static_cast<int>(bound_to(route.from)), static_cast<int>(bound_to(route.to)));
  }
  return prices;
}

double most_of(const std::vector<double>& prices) {
  double most = 0;
  for (const double price : prices) most = std::max(most, price);
  return most;
}

}  // namespace

std::vector<double> worker_prices(const Model& model, const Plan& plan,
                                  const PlanRequest& request) {
  NodeWorks works(model, request);
  return prices_of(
      computations(model, plan.division), plan.routes, plan.binding, model, request, works,
      [&](int part) { return share_of_replica(plan, plan.division.replica_of(part)); });
}

double bottleneck_of(const Sources& sources, const PlanRequest& request, NodeWorks& works,
                     double enough) {
  const auto most = [&](const std::vector<Route>& routes) {
    return most_of(prices_of(sources.computations(), routes, request.placement, sources.model(),
                             request, works, [](int) { return 1.0; }));
  };
  const double computing = most({});
  return computing < enough ? most(connect(sources)) : computing;
}

double bottleneck_of(const Model& model, const Plan& plan, const PlanRequest& request) {
  return most_of(worker_prices(model, plan, request));
}

}  // namespace kerf::partitioner
