#include "schedmp/search/plan_costs.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/complete_plan.h"
#include "runtime/error.h"
#include "schedmp/action_costs.h"
#include "schedmp/simulate.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

using partitioner::at;
using partitioner::Instruction;
using partitioner::Model;
using partitioner::Part;
using partitioner::Plan;
using partitioner::RegionKind;

namespace {

double& cost_of(StageCosts& costs, ActionKind kind) {
  return kind == ActionKind::kForward         ? costs.forward
         : kind == ActionKind::kInputGradient ? costs.input_gradient
                                              : costs.weight_gradient;
}

// Of a message between stages, of all micro-batches.
double mean_transfer(const Model& model, const Plan& plan, const partitioner::DeviceSpeed& speed,
                     bool gradients) {
  const auto link = partitioner::mean_link_costs(speed);
  const std::vector<partitioner::Traffic> traffic =
      partitioner::predict_traffic(model, plan, plan.batch, gradients);
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

// Until I, and after it until W.
int64_t kept_in_regions(const Part& part) {
  return std::max(part.kept_bytes,
                  part.bytes_of(RegionKind::kKeptForWeights) + part.bytes_of(RegionKind::kHanded));
}

// Messages that its forward leaves where they are: what it received, and what it sent, as later
// lists read them there.
int64_t kept_in_slots(const Model& model, const Plan& plan, const Part& part) {
  std::set<int> routes;
  for (const Instruction& i : part.forward.instructions) {
    using Kind = Instruction::Kind;
    if (i.kind == Kind::kReceive || (i.kind == Kind::kSend && i.retained)) routes.insert(i.route);
    if (i.kind == Kind::kRelease || i.kind == Kind::kRetire) routes.erase(i.route);
  }
  const int64_t largest = plan.largest_micro_batch();
  int64_t bytes = 0;
  for (const int route : routes)
    bytes += static_cast<int64_t>(message_bytes(model, plan.routes[at(route)], largest));
  return bytes;
}

// By worker and list: how long it stood still for what other stages had not sent yet, as one alone
// need not.
std::vector<std::vector<double>> waits_for_stages(const Timeline& timeline) {
  std::vector<std::vector<double>> waits;
  for (const auto& row : timeline.rows) waits.emplace_back(row.size());
  for (const TimedMessage& each : timeline.messages) {
    const Action& sends = timeline.rows[at(each.from)][each.sent_in].action;
    const Action& takes = timeline.rows[at(each.to)][each.taken_in].action;
    if (sends.stage != takes.stage) waits[at(each.to)][each.taken_in] += each.waited;
  }
  return waits;
}

}  // namespace

Schedule one_at_a_time(const Plan& plan, bool gradients) {
  Schedule schedule{"alone", plan.micro_batches, groups_of(plan),
                    {},      plan.replicas(),    plan.replica_of};
  schedule.rows.resize(at(plan.workers_bound()));
  const auto add = [&](int stage, ActionKind kind, int micro_batch) {
    for (const int worker : schedule.groups[schedule.group(stage, micro_batch)])
      schedule.rows[at(worker)].push_back({stage, kind, micro_batch});
  };
  for (int mb = 0; mb < plan.micro_batches; ++mb) {
    for (int stage = 0; stage < schedule.stages(); ++stage) add(stage, ActionKind::kForward, mb);
    for (int stage = schedule.stages(); gradients && stage-- > 0;) {
      add(stage, ActionKind::kInputGradient, mb);
      add(stage, ActionKind::kWeightGradient, mb);
    }
  }
  for (size_t group = schedule.groups.size(); gradients && group-- > 0;)
    for (const int worker : schedule.groups[group])
      for (const ActionKind kind : {ActionKind::kReduceGradient, ActionKind::kUpdate})
        schedule.rows[at(worker)].push_back({static_cast<int>(group) % schedule.stages(), kind});
  return schedule;
}

// Members of a group send equal shares to each of the other's (unfold.h). Where a stage sends to
// several, it is the most.
void add_message_bytes(const Model& model, const Plan& plan, ActionCosts& costs) {
  const std::vector<int> stage_of = stages_of_parts(plan);
  const int64_t largest = plan.largest_micro_batch();
  std::map<std::tuple<bool, int, int>, double> sent;  // of gradients, from, to
  for (const partitioner::Route& route : plan.routes) {
    const int from = stage_of[at(route.from)];
    const int to = stage_of[at(route.to)];
    if (from == to || is_local(plan, route) || is_of_step(model, route)) continue;
    sent[{route.gradient, from, to}] += static_cast<double>(message_bytes(model, route, largest));
  }
  for (const auto& [edge, bytes] : sent) {
    const auto& [gradient, from, to] = edge;
    StageBytes& stage = costs.bytes[at(from)];
    double& most = gradient ? stage.input_gradient : stage.forward;
    const auto receivers = static_cast<double>(plan.workers_of(plan.stages[at(to)]).size());
    most = std::max(most, bytes / receivers);
  }
}

void add_kept_bytes(const Model& model, const Plan& plan, const std::vector<Part>& parts,
                    ActionCosts& costs) {
  std::map<std::pair<int, int>, double> kept;  // by stage and worker
  for (const Part& part : parts)
    kept[{part.stage, part.worker}] +=
        static_cast<double>(kept_in_regions(part) + kept_in_slots(model, plan, part));
  for (const auto& [where, bytes] : kept) {
    double& most = costs.bytes[at(where.first)].kept;
    most = std::max(most, bytes);
  }
}

int largest_of(const std::vector<MicroBatchShare>& shares) {
  const auto largest = std::ranges::max_element(shares, {}, &MicroBatchShare::bytes);
  return static_cast<int>(largest - shares.begin());
}

void share_seconds(const std::vector<double>& seconds, std::vector<MicroBatchShare>& shares) {
  if (shares.empty()) return;
  const double most = seconds[at(largest_of(shares))];
  if (most <= 0) return;
  for (size_t micro_batch = 0; micro_batch < shares.size(); ++micro_batch)
    shares[micro_batch].seconds = seconds[micro_batch] / most;
}

ActionCosts costs_of_plan(const Model& model, const Plan& plan, const std::vector<Part>& parts) {
  const partitioner::DeviceSpeed speed = partitioner::request_of_plan(plan).speed;
  const bool gradients =
      std::all_of(parts.begin(), parts.end(), [](const Part& part) { return part.gradients; });
  const Schedule schedule = one_at_a_time(plan, gradients);
  const auto timeline = simulate(model, plan, parts, schedule, speed);
  KERF_CHECK(timeline.has_value(), "a micro-batch alone waits for ever");
  ActionCosts costs;
  costs.stages.assign(plan.stages.size(), {0, 0, 0});
  costs.bytes.resize(plan.stages.size());
  costs.shares = shares_of(plan);
  const int largest = largest_of(costs.shares);
  std::vector<double> seconds(at(plan.micro_batches));
  const std::vector<std::vector<double>> waits = waits_for_stages(*timeline);
  for (size_t worker = 0; worker < timeline->rows.size(); ++worker)
    for (size_t i = 0; i < timeline->rows[worker].size(); ++i) {
      const Moment& moment = timeline->rows[worker][i];
      if (moment.action.micro_batch < 0) continue;
      const double took = moment.end - moment.begin - waits[worker][i];
      seconds[at(moment.action.micro_batch)] += took;
      if (moment.action.micro_batch != largest) continue;
      double& cost = cost_of(costs.stages[at(moment.action.stage)], moment.action.kind);
      cost = std::max(cost, took);
    }
  share_seconds(seconds, costs.shares);
  costs.transfer = mean_transfer(model, plan, speed, gradients);
  add_message_bytes(model, plan, costs);
  if (gradients) add_kept_bytes(model, plan, parts, costs);
  return costs;
}

std::vector<MicroBatchShare> shares_of(const Plan& plan) {
  std::vector<MicroBatchShare> shares;
  const auto largest = static_cast<double>(plan.largest_micro_batch());
  for (const int64_t rows : plan.given_sizes)
    shares.push_back({static_cast<double>(rows) / largest, static_cast<double>(rows) / largest});
  return shares;
}

Links links_of_plan(const Plan& plan) {
  const partitioner::DeviceSpeed speed = partitioner::request_of_plan(plan).speed;
  return links_of(speed.capacities, Link{speed.link_seconds, speed.link_bytes_per_second});
}

}  // namespace kerf::schedmp
