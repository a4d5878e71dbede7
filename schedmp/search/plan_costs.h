// What the stages of a plan come to, for a simulation or a search on the graph of its stages: what
// their actions take as the plan is priced, and what they send and keep. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/part.h"
#include "schedmp/unfold.h"

namespace kerf::schedmp {

// Seconds by stage, of the plan's largest micro-batch, and of a message on average: as they are
// where one micro-batch at a time goes through the stages (simulate.h), less what a stage waits for
// others. And bytes: of a stage's message, of all tensors together, to the stage that gets most,
// and of what its worker with most keeps of a micro-batch. `parts` are those of `plan`, whose
// stages are on a worker, or group, each.
ActionCosts costs_of_plan(const partitioner::Model& model, const partitioner::Plan& plan,
                          const std::vector<partitioner::Part>& parts);

// By micro-batch its rows beside those of the largest; empty where they are as even as can be.
std::vector<MicroBatchShare> shares_of(const partitioner::Plan& plan);
// Its number; 0 where none differ.
int largest_of(const std::vector<MicroBatchShare>& shares);
// By micro-batch what its actions took together, beside what those of the largest did: an action
// takes some time that no row adds to. Where none differ, nothing.
void share_seconds(const std::vector<double>& seconds, std::vector<MicroBatchShare>& shares);

// Those that the plan was made for: of which its request says nothing, as any is priced (cost.h).
Links links_of_plan(const partitioner::Plan& plan);

// What messages between stages have, and what their workers keep, into bytes of as many stages.
void add_message_bytes(const partitioner::Model& model, const partitioner::Plan& plan,
                       ActionCosts& costs);
void add_kept_bytes(const partitioner::Model& model, const partitioner::Plan& plan,
                    const std::vector<partitioner::Part>& parts, ActionCosts& costs);

// Each micro-batch to the end and back before the next, I and W apart; or forward alone.
Schedule one_at_a_time(const partitioner::Plan& plan, bool gradients = true);

}  // namespace kerf::schedmp
