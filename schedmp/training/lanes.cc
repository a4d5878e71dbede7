#include "schedmp/training/lanes.h"

#include <map>

namespace kerf::schedmp {

namespace {

std::pair<int, int> ends(const partitioner::Plan& plan, const partitioner::Route& route) {
  return {plan.binding[static_cast<size_t>(route.from)],
          plan.binding[static_cast<size_t>(route.to)]};
}

}  // namespace

std::vector<int> lanes_of_routes(const partitioner::Plan& plan) {
  std::vector<int> lanes;
  std::map<std::pair<int, int>, int> used;
  for (const partitioner::Route& route : plan.routes) lanes.push_back(used[ends(plan, route)]++);
  return lanes;
}

std::vector<int32_t> credits_of(const Verdict& verdict, int slots) {
  std::vector<int32_t> credits;
  for (const int held : verdict.held) credits.push_back(held + slots);
  return credits;
}

LaneTable size_lanes(const partitioner::Model& model, const partitioner::Plan& plan,
                     const std::vector<int32_t>& credits) {
  const auto workers = static_cast<size_t>(plan.workers_bound());
  LaneTable lanes(workers, std::vector<std::vector<runtime::Lane>>(workers));
  const int64_t samples = plan.largest_micro_batch();
  for (const partitioner::Route& route : plan.routes) {
    const auto [from, to] = ends(plan, route);
    if (from == to) continue;  // the worker's mailbox has it
    lanes[static_cast<size_t>(from)][static_cast<size_t>(to)].push_back(
        {message_bytes(model, route, samples), credits[static_cast<size_t>(route.id)]});
  }
  return lanes;
}

}  // namespace kerf::schedmp
