#include "partitioner/cost.h"

#include <algorithm>

namespace kerf::partitioner {

namespace {

double roofline(double flops, double bytes, const DeviceSpeed& speed) {
  return std::max(flops / speed.flops_per_second, bytes / speed.bytes_per_second) +
         speed.launch_seconds;
}

template <class Wanted>
bool has_input(const ops::BoundOperator& op, const Wanted& wanted) {
  return std::any_of(op.inputs().begin(), op.inputs().end(), wanted);
}

}  // namespace

NodeCost node_cost(const Model& model, NodeId id, const ops::Box& iterations, int64_t largest,
                   int64_t samples, const DeviceSpeed& speed) {
  const ops::BoundOperator& op = model.op(id);
  NodeCost result;
  if (op.aliases() || iterations.empty()) return result;
  result.work = op.cost(ops::local_specs(op, iterations, largest, samples));
  ops::Cost& work = result.work;
  const bool trains = model.loss() >= 0;  // else there are no gradients
  if (!trains || !has_input(op, [](const ops::Operand& each) { return each.in_input_gradient(); }))
    work.input_gradient_flops = work.input_gradient_bytes = 0;
  if (!trains || !has_input(op, [](const ops::Operand& each) { return each.in_weight_gradient(); }))
    work.weight_gradient_flops = work.weight_gradient_bytes = 0;
  const MeasuredFactors& measured = speed.profile.of(model.node(id).name);
  const auto seconds = [&](double flops, double bytes, double factor) {
    return flops + bytes > 0 ? factor * roofline(flops, bytes, speed) : 0;
  };
  result.forward_seconds =
      measured.forward * roofline(work.forward_flops, work.forward_bytes, speed);
  result.input_gradient_seconds =
      seconds(work.input_gradient_flops, work.input_gradient_bytes, measured.input_gradient);
  result.weight_gradient_seconds =
      seconds(work.weight_gradient_flops, work.weight_gradient_bytes, measured.weight_gradient);
  return result;
}

LinkCosts link_costs(const DeviceSpeed& speed, int worker, int other) {
  LinkCosts costs{speed.link_bytes_per_second, speed.link_seconds};
  const LinkSpeed* link = speed.capacities.link_between(worker, other);
  if (link == nullptr) return costs;
  costs.bytes_per_second = link->bytes_per_second.value_or(costs.bytes_per_second);
  costs.seconds = link->seconds.value_or(costs.seconds);
  return costs;
}

LinkCosts mean_link_costs(const DeviceSpeed& speed) {
  const LinkCosts other{speed.link_bytes_per_second, speed.link_seconds};
  const auto& links = speed.capacities.links;
  if (links.empty()) return other;
  const auto workers = static_cast<double>(speed.capacities.workers.size());
  const double pairs = workers * (workers - 1) / 2;
  const double rest = pairs - static_cast<double>(links.size());
  double seconds_of_byte = rest / other.bytes_per_second;
  double seconds = rest * other.seconds;
  for (const auto& [ends, link] : links) {
    seconds_of_byte += 1 / link.bytes_per_second.value_or(other.bytes_per_second);
    seconds += link.seconds.value_or(other.seconds);
  }
  return {pairs / seconds_of_byte, seconds / pairs};
}

}  // namespace kerf::partitioner
