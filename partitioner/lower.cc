#include <algorithm>

#include "partitioner/lowering.h"

namespace kerf::partitioner {
namespace {

[[noreturn]] void refuse(const std::string& where, std::string reason) {
  throw Error(ErrorCode::kUsage, std::move(reason), where);
}

// What the general types of layouts and plans can say, but no part can do yet.

void check_routes(const Model& model, const Plan& plan) {
  for (const Route& route : plan.routes) {
    const int worker = plan.binding[static_cast<size_t>(route.from)];
    if (worker == plan.binding[static_cast<size_t>(route.to)])
      refuse("plan",
             format("parts {} and {} exchange {} and are both bound to worker {}, which is not "
                    "supported yet; bind them to different workers",
                    route.from, route.to, model.value(route.value).name, worker));
  }
}

void check_stages(const Plan& plan) {
  std::vector<int> stage_of(plan.binding.size(), -1);
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (const int part : plan.stages[stage].parts) {
      int& known = stage_of[static_cast<size_t>(part)];
      if (known >= 0)
        refuse("plan", format("part {} is in stages {} and {}, which is not supported yet; give "
                              "each stage parts of its own",
                              part, known, stage));
      known = static_cast<int>(stage);
    }
}

void check_results(const Model& model, const Sources& sources) {
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const auto& shares = sources.shares(model.node(node).outputs[0]);
    const std::string where = format("node {}", model.node(node).name);
    for (const ops::Share& share : shares)
      if (share.partial)
        refuse(where, format("{} gives results, not partial sums, on part {}", model.node(node).op,
                             share.part));
    if (node == model.loss() && shares.size() > 1)
      refuse(where, "the loss is computed by one part; make its layout whole on it");
  }
}

}  // namespace

std::vector<Part> lower(const Model& model, const Plan& plan) {
  const Sources sources(model, plan.layouts);
  check_routes(model, plan);
  check_stages(plan);
  check_results(model, sources);
  const int workers =
      plan.binding.empty() ? 0 : 1 + *std::max_element(plan.binding.begin(), plan.binding.end());
  std::vector<Part> parts(static_cast<size_t>(workers));
  for (int worker = 0; worker < workers; ++worker)
    parts[static_cast<size_t>(worker)].worker = worker;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (const int part : plan.stages[stage].parts) {
      const int worker = plan.binding[static_cast<size_t>(part)];
      Part& to = parts[static_cast<size_t>(worker)];
      Lowering lowering(model, plan, sources, part, to);
      to.stages.push_back(lowering.run(static_cast<int>(stage)));
    }
  return parts;
}

}  // namespace kerf::partitioner
