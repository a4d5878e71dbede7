#include <algorithm>
#include <map>

#include "partitioner/lowering.h"
#include "partitioner/memory.h"

namespace kerf::partitioner {
namespace {

[[noreturn]] void refuse(const std::string& where, std::string reason) {
  throw Error(ErrorCode::kUsage, std::move(reason), where);
}

// What the general types of layouts and plans can say, but no part can do yet.

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
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    std::map<int, int> part_on;  // worker
    for (const int part : plan.stages[stage].parts) {
      const int worker = plan.binding[static_cast<size_t>(part)];
      if (const auto [other, fresh] = part_on.emplace(worker, part); !fresh)
        refuse("plan", format("parts {} and {} of stage {} are both bound to worker {}, which is "
                              "not supported yet; bind them to different workers",
                              other->second, part, stage, worker));
    }
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

bool interleaves(const Plan& plan, int stage) {
  const Stage& own = plan.stages[static_cast<size_t>(stage)];
  const auto ours = [&](int part) {
    return std::find(own.parts.begin(), own.parts.end(), part) != own.parts.end();
  };
  return own.interleaved ||
         std::none_of(plan.routes.begin(), plan.routes.end(), [&](const Route& route) {
           return route.gradient && ours(route.from) && !ours(route.to);
         });
}

int64_t persistent_bytes(const Part& part, int optimizer_states, bool trains) {
  int64_t bytes = 0;
  for (const Local& local : part.locals) {
    if (!local.persistent()) continue;
    const int64_t own = whole_blocks(static_cast<int64_t>(local.spec.bytes(0)));
    if (local.kind == LocalKind::kParameter) bytes += own * (1 + (trains ? optimizer_states : 0));
    if (local.kind == LocalKind::kParameterGradient && trains) bytes += own;
  }
  return bytes;
}

std::vector<Part> lower(const Model& model, const Plan& plan, const LowerOptions& options) {
  const Sources sources(model, plan.layouts);
  check_stages(plan);
  check_results(model, sources);
  std::vector<Part> parts(plan.binding.size());
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (const int part : plan.stages[stage].parts)
      parts[static_cast<size_t>(part)] =
          Lowering(model, plan, sources, options).run(part, static_cast<int>(stage));
  return parts;
}

}  // namespace kerf::partitioner
