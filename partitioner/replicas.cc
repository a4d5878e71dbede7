#include "partitioner/replicas.h"

#include <algorithm>

#include "partitioner/at.h"
#include "partitioner/connected_plan.h"
#include "partitioner/cut.h"
#include "partitioner/sources.h"
#include "partitioner/stage_price.h"
#include "partitioner/tried_plan.h"

namespace kerf::partitioner {

namespace {

void refuse_states(const Model& model) {
  for (NodeId node = 0; node < model.nodes(); ++node)
    if (!model.op(node).state_updates().empty())
      throw Error(ErrorCode::kUsage,
                  format("{} keeps running statistics of all micro-batches, and a replica sees its "
                         "own alone; choose a schedule without replicas",
                         model.node(node).op),
                  format("node {}", model.node(node).name));
}

int place_in(const std::vector<int>& group, int worker) {
  return static_cast<int>(std::ranges::find(group, worker) - group.begin());
}

// The numbers of a stage's parts that are one replica's.
std::vector<int> parts_of_replica(const Plan& plan, const Stage& stage, int replica) {
  std::vector<int> parts;
  for (const int part : stage.parts)
    if (plan.division.replica_of(part) == replica) parts.push_back(part);
  return parts;
}

std::vector<int> workers_of(const Plan& plan, const std::vector<int>& parts) {
  return plan.workers_of(Stage{{}, parts});
}

ops::Layout of_replica(const Plan& plan, const ops::Layout& layout, int replica) {
  ops::Layout own;
  for (const ops::Share& share : layout.shares)
    if (plan.division.replica_of(share.part) == replica) own.shares.push_back(share);
  for (ops::Share& share : own.shares) share.part -= replica * plan.division.replica_parts;
  return own;
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::kUsage,
              format("the schedule's replicas are none of this plan: {}; every replica of a stage "
                     "has as many workers, the first those from 0 on",
                     why));
}

// Its stages and division; nothing that follows from these.
Plan with_replicas(Plan plan, const std::vector<std::vector<int>>& groups,
                   const std::vector<int>& replica_of) {
  const int parts = plan.parts();
  const size_t stages = plan.stages.size();
  const size_t replicas = groups.size() / stages;
  KERF_CHECK(plan.division.replica_parts == 0, "the plan has replicas already");
  const int most = *std::ranges::max_element(replica_of);
  if (groups.size() != replicas * stages || static_cast<size_t>(most) >= replicas ||
      !std::equal(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(stages),
                  groups_of(plan).begin()))
    refuse("its first replica is not on the workers that the plan has for its stages");
  plan.division.replica_parts = parts;
  plan.replica_of = replica_of;
  const std::vector<int> binding = plan.binding;
  plan.binding.resize(replicas * at(parts));
  for (size_t s = 0; s < stages; ++s) {
    Stage& stage = plan.stages[s];
    const std::vector<int> own = stage.parts;
    const std::vector<int> first = workers_of(plan, own);
    for (size_t r = 1; r < replicas; ++r)
      for (const int part : own) {
        const std::vector<int>& group = groups[r * stages + s];
        if (group.size() != first.size())
          refuse(format("stage {} is on {} workers in replica {}, and on {} in the first", s,
                        group.size(), r, first.size()));
        const int copy = static_cast<int>(r) * parts + part;
        stage.parts.push_back(copy);
        plan.binding[at(copy)] = group[at(place_in(first, binding[at(part)]))];
      }
  }
  for (ops::Layout& node : plan.division.nodes) {
    const std::vector<ops::Share> own = node.shares;
    for (size_t r = 1; r < replicas; ++r)
      for (ops::Share share : own) {
        share.part += static_cast<int>(r) * parts;
        node.shares.push_back(std::move(share));
      }
  }
  plan.bound.reset();
  plan.witness = {};
  return plan;
}

}  // namespace

Plan replicated_plan(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                     Plan plan, const std::vector<std::vector<int>>& groups,
                     const std::vector<int>& replica_of) {
  refuse_states(model);
  plan = with_replicas(std::move(plan), groups, replica_of);
  const Sources sources(model, plan.division, stages_of_parts(plan));
  add_connectors(Sums(sources), plan);
  plan.workers = predict(model, plan, request, in_flight);
  plan.bottleneck = bottleneck_of(model, plan, request);
  return plan;
}

std::variant<Plan, Infeasible> replicated_plan_within(const Model& model,
                                                      const PlanRequest& request,
                                                      const InFlight& in_flight, Plan plan,
                                                      const std::vector<std::vector<int>>& groups,
                                                      const std::vector<int>& replica_of) {
  plan = replicated_plan(model, request, in_flight, std::move(plan), groups, replica_of);
  if (auto lacks = shortage_of(plan, request)) return *std::move(lacks);
  return plan;
}

std::vector<std::vector<int>> groups_of(const Plan& plan) {
  std::vector<std::vector<int>> groups;
  for (int replica = 0; replica < plan.replicas(); ++replica)
    for (const Stage& stage : plan.stages)
      groups.push_back(workers_of(plan, parts_of_replica(plan, stage, replica)));
  return groups;
}

size_t group_of(const Plan& plan, int part, int stage) {
  return at(plan.division.replica_of(part)) * plan.stages.size() + at(stage);
}

int micro_batches_of(const Plan& plan, int replica) {
  if (plan.replica_of.empty()) return plan.micro_batches;
  return static_cast<int>(std::ranges::count(plan.replica_of, replica));
}

std::map<int64_t, int> sizes_of_replica(const Plan& plan, int64_t batch, int replica) {
  if (plan.replicas() == 1) return plan.sizes().counted(batch);
  const std::vector<int64_t> sizes = plan.sizes().of(batch);
  std::map<int64_t, int> counted;
  for (size_t mb = 0; mb < sizes.size(); ++mb)
    if (plan.replica_of[mb] == replica) ++counted[sizes[mb]];
  return counted;
}

double share_of_replica(const Plan& plan, int replica) {
  if (plan.replicas() == 1) return 1;
  if (plan.given_sizes.empty())
    return static_cast<double>(std::ranges::count(plan.replica_of, replica)) / plan.micro_batches;
  int64_t rows = 0;
  for (size_t mb = 0; mb < plan.replica_of.size(); ++mb)
    if (plan.replica_of[mb] == replica) rows += plan.given_sizes[mb];
  return static_cast<double>(rows) / static_cast<double>(plan.batch);
}

std::vector<std::string> check_replicas(const Plan& plan) {
  const int each = plan.division.replica_parts;
  if (each == 0) {
    if (plan.replica_of.empty()) return {};
    return {"it says which replica takes which micro-batch, but not how many parts one has"};
  }
  if (each < 1 || plan.parts() % each != 0)
    return {format("{} parts are no replicas of {} each", plan.parts(), each)};
  if (std::ssize(plan.replica_of) != plan.micro_batches)
    return {format("it says of {} micro-batches which replica takes them, and has {}",
                   plan.replica_of.size(), plan.micro_batches)};
  for (const int replica : plan.replica_of)
    if (replica < 0 || replica >= plan.replicas())
      return {format("there is no replica {} of {}", replica, plan.replicas())};
  std::vector<std::string> problems;
  for (int replica = 1; replica < plan.replicas(); ++replica) {
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      std::vector<int> parts = parts_of_replica(plan, plan.stages[s], replica);
      for (int& part : parts) part -= replica * each;
      if (parts != parts_of_replica(plan, plan.stages[s], 0))
        problems.push_back(
            format("replica {} of stage {} has other parts than the first", replica, s));
    }
    for (size_t node = 0; node < plan.division.nodes.size() && problems.empty(); ++node)
      if (of_replica(plan, plan.division.nodes[node], replica) !=
          of_replica(plan, plan.division.nodes[node], 0))
        problems.push_back(
            format("replica {} divides node {} otherwise than the first", replica, node));
  }
  return problems;
}

}  // namespace kerf::partitioner
