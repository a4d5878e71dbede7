// Replicas: a plan whose stages exist several times, as a schedule wants them that sends
// micro-batches through the same workers in several ways (Chimera, Li and Hoefler 2021; DualPipe,
// DeepSeek-AI 2024).
//
//   replica 0   stage 0 on worker 0 ─> stage 1 on worker 1      micro-batches 0 and 1
//   replica 1   stage 0 on worker 1 ─> stage 1 on worker 0      micro-batches 2 and 3
//
// The parts of a replica compute the same boxes as those of any other, of micro-batches of their
// own: activations stay within a replica, and the gradient of a parameter has a summand from each,
// which homes (homes.h) sum like any others. Pure functions.
#pragma once

#include <map>
#include <variant>
#include <vector>

#include "partitioner/plan.h"

namespace kerf::partitioner {

struct Infeasible;
struct PlanRequest;

// The plan, of one replica, with as many as `replica_of` says, by micro-batch. `groups`: the
// workers of each stage, all stages of each replica in turn; those of the first are the plan's. Its
// predictions are fresh, within a cap or not, and it has no bound: that was of one replica. Throws
// Error{kUsage} for groups that are no such replicas, and for a model whose states every
// micro-batch changes in turn (batch norm's), which no replica sees.
Plan replicated_plan(const Model& model, const PlanRequest& request, const InFlight& in_flight,
                     Plan plan, const std::vector<std::vector<int>>& groups,
                     const std::vector<int>& replica_of);
// The same, or what it lacks where it is within no cap.
std::variant<Plan, Infeasible> replicated_plan_within(const Model& model,
                                                      const PlanRequest& request,
                                                      const InFlight& in_flight, Plan plan,
                                                      const std::vector<std::vector<int>>& groups,
                                                      const std::vector<int>& replica_of);

// The workers of each stage, all stages of each replica in turn.
std::vector<std::vector<int>> groups_of(const Plan& plan);
// The number among these of the stage that the part is of, in its replica.
size_t group_of(const Plan& plan, int part, int stage);
// How many micro-batches of a step go through it.
int micro_batches_of(const Plan& plan, int replica);
// Of a step of `batch` rows what goes through a replica: how many micro-batches have so many rows.
std::map<int64_t, int> sizes_of_replica(const Plan& plan, int64_t batch, int replica);
// The part of the step's micro-batches that goes through it, in [0, 1]; of their rows, where they
// were given.
double share_of_replica(const Plan& plan, int replica);
// Empty if sound: replicas have the same parts, stage by stage, and divide every node alike.
std::vector<std::string> check_replicas(const Plan& plan);

}  // namespace kerf::partitioner
