#include <algorithm>

#include "partitioner/lowering.h"

namespace kerf::partitioner {
namespace {

void check_routes(const Model& model, const Plan& plan) {
  for (const Route& route : plan.routes) {
    const int worker = plan.binding[static_cast<size_t>(route.from)];
    if (worker == plan.binding[static_cast<size_t>(route.to)])
      throw Error(
          ErrorCode::kUsage,
          format("parts {} and {} exchange {} and are both bound to worker {}, which is not "
                 "supported yet; bind them to different workers",
                 route.from, route.to, model.value(route.value).name, worker),
          "plan");
  }
}

}  // namespace

std::vector<Part> lower(const Model& model, const Plan& plan) {
  check_routes(model, plan);
  const Sources sources(model, plan.layouts);
  const int workers =
      plan.binding.empty() ? 0 : 1 + *std::max_element(plan.binding.begin(), plan.binding.end());
  std::vector<Part> parts(static_cast<size_t>(workers));
  for (int worker = 0; worker < workers; ++worker)
    parts[static_cast<size_t>(worker)].worker = worker;
  std::vector<bool> seen(plan.binding.size(), false);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (const int part : plan.stages[stage].parts) {
      const auto at = static_cast<size_t>(part);
      KERF_CHECK(!seen[at], "part {} belongs to two stages", part);
      seen[at] = true;
      Part& to = parts[static_cast<size_t>(plan.binding[at])];
      Lowering lowering(model, plan, sources, part, to);
      to.stages.push_back(lowering.run(static_cast<int>(stage)));
    }
  return parts;
}

}  // namespace kerf::partitioner
