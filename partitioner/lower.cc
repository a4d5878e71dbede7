#include <algorithm>
#include <set>

#include "partitioner/at.h"
#include "partitioner/blocks.h"
#include "partitioner/in_parallel.h"
#include "partitioner/lowering.h"
#include "partitioner/turns.h"

namespace kerf::partitioner {
namespace {

bool interleaves(const Plan& plan, const RouteIndex& routes, int stage) {
  const Stage& own = plan.stages[static_cast<size_t>(stage)];
  const std::set<int> ours(own.parts.begin(), own.parts.end());
  return own.interleaved || std::none_of(ours.begin(), ours.end(), [&](int part) {
           const RouteIndex::Routes sent = routes.sent(part, true);
           return std::any_of(sent.begin(), sent.end(), [&](const Route* route) {
             return route->value != kStepVector && !ours.contains(route->to);
           });
         });
}

std::vector<Part> those_of(int worker, const Plan& plan, std::vector<Part> parts) {
  std::vector<Part> own;
  for (size_t part = 0; part < parts.size(); ++part)
    if (plan.binding[part] == worker) own.push_back(std::move(parts[part]));
  return own;
}

}  // namespace

bool interleaves(const Plan& plan, int stage) {
  return interleaves(plan, RouteIndex(plan.routes), stage);
}

int root_of(const Part& part, int local) {
  while (part.locals[static_cast<size_t>(local)].storage == Storage::kAlias)
    local = part.locals[static_cast<size_t>(local)].alias_of;
  return local;
}

int64_t persistent_bytes(const Part& part, int optimizer_states, int micro_batches, bool trains) {
  int64_t bytes = 0;
  for (const LocalCall& call : part.calls) bytes += call.packed;
  for (const Local& local : part.locals) {
    if (!local.persistent()) continue;
    const int64_t own = whole_blocks(static_cast<int64_t>(local.bytes(0)));
    const bool weights = local.kind == LocalKind::kParameter || local.kind == LocalKind::kHome;
    if (weights) bytes += own;
    if (!trains) continue;
    if (local.trained) bytes += own * (optimizer_states + std::max(part.versions - 1, 0));
    if (local.kind == LocalKind::kParameterGradient || local.kind == LocalKind::kHomeGradient ||
        local.kind == LocalKind::kStep)
      bytes += own;
    if (local.kind == LocalKind::kStatistics) bytes += own * (micro_batches + part.ahead);
  }
  return bytes;
}

std::vector<Part> lower(const Model& model, const Plan& plan, const LowerOptions& options) {
  const Sources sources(model, plan.division, stages_of_parts(plan));
  return lower(Sums(sources), plan, options);
}

std::vector<Part> lower(const Sums& sums, const Plan& plan, const LowerOptions& options) {
  const Sources& sources = sums.sources();
  const Model& model = sources.model();
  const RouteIndex routes(plan.routes);
  const StepVector step_vector(model, plan.micro_batches);
  std::vector<StepMember> members;
  if (options.gradients) members = step_members(sources, plan.micro_batches);
  std::vector<int> stage_of(plan.binding.size());
  std::vector<bool> interleaved;
  std::vector<bool> in_turns;
  for (int stage = 0; stage < std::ssize(plan.stages); ++stage) {
    interleaved.push_back(interleaves(plan, routes, stage));
    in_turns.push_back(needs_turns(plan, plan.stages[at(stage)]));
    for (const int part : plan.stages[static_cast<size_t>(stage)].parts)
      stage_of[static_cast<size_t>(part)] = stage;
  }
  std::vector<Part> parts(plan.binding.size());
  const auto lower_part = [&](size_t part) {
    const int stage = stage_of[part];
    if (options.worker && plan.binding[part] != *options.worker && !in_turns[at(stage)]) return;
    parts[part] = Lowering(model, plan, sums, routes, step_vector, members, options)
                      .run(static_cast<int>(part), stage, interleaved[static_cast<size_t>(stage)]);
  };
  if (options.in_parallel)
    in_parallel(parts.size(), lower_part);
  else
    for (size_t part = 0; part < parts.size(); ++part) lower_part(part);
  give_turns(plan, parts);
  return options.worker ? those_of(*options.worker, plan, std::move(parts)) : std::move(parts);
}

}  // namespace kerf::partitioner
