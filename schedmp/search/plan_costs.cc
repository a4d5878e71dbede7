#include "schedmp/search/plan_costs.h"

#include <algorithm>
#include <limits>

#include "partitioner/at.h"
#include "partitioner/complete_plan.h"
#include "runtime/error.h"
#include "schedmp/simulate.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

using partitioner::at;
using partitioner::Model;
using partitioner::Part;
using partitioner::Plan;
using partitioner::RegionKind;

namespace {

// Each micro-batch to the end and back before the next, I and W apart.
Schedule one_at_a_time(const Plan& plan) {
  Schedule schedule{"alone", plan.micro_batches, groups_of(plan), {}};
  schedule.rows.resize(at(plan.workers_bound()));
  const auto add = [&](int stage, ActionKind kind, int micro_batch) {
    for (const int worker : schedule.groups[at(stage)])
      schedule.rows[at(worker)].push_back({stage, kind, micro_batch});
  };
  for (int mb = 0; mb < plan.micro_batches; ++mb) {
    for (int stage = 0; stage < schedule.stages(); ++stage) add(stage, ActionKind::kForward, mb);
    for (int stage = schedule.stages(); stage-- > 0;) {
      add(stage, ActionKind::kInputGradient, mb);
      add(stage, ActionKind::kWeightGradient, mb);
    }
  }
  for (int stage = schedule.stages(); stage-- > 0;) add(stage, ActionKind::kUpdate, -1);
  return schedule;
}

double& cost_of(StageCosts& costs, ActionKind kind) {
  return kind == ActionKind::kForward         ? costs.forward
         : kind == ActionKind::kInputGradient ? costs.input_gradient
                                              : costs.weight_gradient;
}

// Of the messages between stages, of the largest micro-batch.
double mean_transfer(const Model& model, const Plan& plan, const partitioner::DeviceSpeed& speed) {
  const auto link = partitioner::mean_link_costs(speed);
  const std::vector<partitioner::Traffic> traffic =
      partitioner::predict_traffic(model, plan, plan.batch);
  const std::vector<int> stage_of = stages_of_parts(plan);
  double seconds = 0;
  int64_t messages = 0;
  for (size_t route = 0; route < plan.routes.size(); ++route) {
    const partitioner::Route& each = plan.routes[route];
    const bool within = stage_of[at(each.from)] == stage_of[at(each.to)];
    if (within || is_local(plan, each) || is_of_step(model, each)) continue;
    messages += traffic[route].messages;
    seconds += static_cast<double>(traffic[route].messages) * link.seconds +
               static_cast<double>(traffic[route].bytes) / link.bytes_per_second;
  }
  return messages > 0 ? seconds / static_cast<double>(messages) : 0;
}

int64_t kept_bytes(const Part& part) {
  return part.bytes_of(RegionKind::kKept) + part.bytes_of(RegionKind::kKeptForWeights) +
         part.bytes_of(RegionKind::kHanded);
}

}  // namespace

ActionCosts costs_of_plan(const Model& model, const Plan& plan, const std::vector<Part>& parts) {
  const partitioner::DeviceSpeed speed = partitioner::request_of_plan(plan).speed;
  const Schedule schedule = one_at_a_time(plan);
  const auto timeline = simulate(model, plan, parts, schedule, speed);
  KERF_CHECK(timeline.has_value(), "a micro-batch alone waits for ever");
  ActionCosts costs;
  costs.stages.assign(plan.stages.size(), {0, 0, 0});
  for (const auto& row : timeline->rows)
    for (const Moment& moment : row) {
      if (moment.action.micro_batch != 0) continue;
      double& cost = cost_of(costs.stages[at(moment.action.stage)], moment.action.kind);
      cost = std::max(cost, moment.end - moment.begin);
    }
  costs.transfer = mean_transfer(model, plan, speed);
  return costs;
}

std::vector<int> kept_within(const Model& model, const Plan& plan, const std::vector<Part>& parts,
                             const partitioner::Setting& setting, int64_t cap) {
  const Verdict alone = verify(model, plan, parts, one_at_a_time(plan), setting);
  std::vector<int> keep(plan.stages.size(), plan.micro_batches);
  for (const Part& part : parts) {
    const int64_t left = cap - alone.peak_bytes[at(part.worker)];
    if (left < 0)
      throw Error(ErrorCode::kInfeasible,
                  kerf::format("worker {} takes {} bytes with one micro-batch at a time, {} more "
                               "than the cap; give --memory {}",
                               part.worker, alone.peak_bytes[at(part.worker)], -left,
                               alone.peak_bytes[at(part.worker)]));
    const int64_t more =
        kept_bytes(part) > 0 ? left / kept_bytes(part) : std::numeric_limits<int64_t>::max() - 1;
    int& stage = keep[at(part.stage)];
    stage = static_cast<int>(std::min<int64_t>(stage, 1 + more));
  }
  return keep;
}

}  // namespace kerf::schedmp
