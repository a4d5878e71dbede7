#include "apps/kerf/plan_request.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "apps/kerf/flag_rules.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/planned_setting.h"
#include "apps/main/flag_values.h"
#include "apps/profile_file.h"
#include "partitioner/given_stages.h"
#include "partitioner/model_graph.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

using partitioner::PlanRequest;

constexpr int64_t kDefaultMicroBatches = 8;  // of batches that have as many rows

// Stages that are one worker's each go where the file has them, several to a worker too; of
// replicas the first.
std::vector<int> placement_of(const schedmp::Schedule& schedule) {
  std::vector<int> placement;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const std::vector<int>& group = schedule.groups[static_cast<size_t>(stage)];
    if (group.size() != 1) return {};
    placement.push_back(group[0]);
  }
  return placement;
}

// What it has no use for: it chooses the stages, and with them the workers of each.
void check_automatic(const PlanFlags& flags) {
  require(is_built_in(flags.schedule.value_or(flags.default_schedule)), "--cut",
          "a schedule's file says which stages there are; give the cut that it is for, or a "
          "schedule by its name");
  const std::string schedule = flags.schedule.value_or(flags.default_schedule);
  require(schedmp::shape_of(schedule).placement == schedmp::Placement::kAnywhere ||
              schedmp::shape_of(schedule).most_chunks == 1,
          "--cut",
          format("it chooses the stages, and schedule {} places them; give --cut layer", schedule));
  require(schedmp::replicas_of(schedule) == 1, "--cut",
          format("it prices plans of one replica, and schedule {} has {} of each stage; give --cut "
                 "layer",
                 schedule, schedmp::replicas_of(schedule)));
  require(
      !schedmp::is_endless(schedule), "--cut",
      format("it looks at cuts by sample too, whose weights several workers share, and schedule {} "
             "updates them within the step; give --cut layer",
             schedule));
  require(flags.objective.value_or("time") == "time", "--objective",
          "--cut auto takes the plan of the shortest step; leave the flag out");
}

// Of replicas the plan has the first, and its workers; the others' are the schedule's.
int workers_of_first_replica(const schedmp::Schedule& schedule) {
  std::set<int> workers;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const std::vector<int>& group = schedule.groups[static_cast<size_t>(stage)];
    workers.insert(group.begin(), group.end());
  }
  return static_cast<int>(workers.size());
}

// Which workers there are, and who has which part.
void take_workers(const PlanFlags& flags, const std::optional<schedmp::Schedule>& file,
                  PlanRequest& request) {
  const auto listed = static_cast<int>(request.speed.capacities.workers.size());
  request.workers = file ? workers_of_first_replica(*file)
                         : flags.workers.value_or(listed > 0 ? listed : flags.default_workers);
  request.stages = flags.stages.value_or(0);
  if (!file || request.cut != partitioner::Cut::kLayer) return;
  request.placement = placement_of(*file);
  if (!request.placement.empty()) request.workers = file->stages();
}

// Two replicas of a pipeline that goes both ways are of an even number of stages.
void check_both_ways(const PlanFlags& flags, const PlanRequest& request) {
  using partitioner::Cut;
  if (!is_built_in(request.schedule) || request.cut == Cut::kLayer || request.cut == Cut::kHybrid ||
      schedmp::shape_of(request.schedule).placement != schedmp::Placement::kBothWays)
    return;
  const int even = request.workers + request.workers % 2;
  std::string way_out = "give --cut layer";
  if (even != request.workers)
    way_out += request.speed.capacities.empty()
                   ? format(" --workers {}", even)
                   : format(", and {} to --devices", plural(even, "worker"));
  require(
      false, "--schedule",
      format("{} needs an even number of stages, and a {} cut has one, on all workers; {}",
             request.schedule, flags.cut.value_or(std::string(to_string(request.cut))), way_out));
}

// A schedule that says where its stages are has them there.
void take_shape(const PlanFlags& flags, PlanRequest& request) {
  if (!is_built_in(request.schedule)) return;
  check_both_ways(flags, request);
  const schedmp::Shape& shape = schedmp::shape_of(request.schedule);
  const bool asked = flags.steering.stages_per_worker || request.steering.stages_per_worker > 1;
  const int chunks = asked ? request.steering.stages_per_worker : shape.chunks;
  if (shape.placement == schedmp::Placement::kAnywhere ||
      (shape.most_chunks == 1 && (!asked || chunks == 1)))
    return;
  require(request.cut == partitioner::Cut::kLayer, "--schedule",
          format("{} places {} on each worker; only --cut layer makes them", request.schedule,
                 chunks_text(shape)));
  require(request.steering.places.empty(), "--place",
          format("schedule {} places the stages itself", request.schedule));
  const auto groups = schedmp::groups_of_shape(request.schedule, request.workers, chunks);
  for (const std::vector<int>& group : groups) request.placement.push_back(group[0]);
  request.workers = static_cast<int>(groups.size());
}

// --micro-batches may say the rows of each.
int64_t batch_of(const PlanFlags& flags) {
  if (flags.given_sizes.empty()) return flags.batch.value_or(128);
  const std::string given = format(
      "--micro-batches {}", partitioner::sizes_text(*flags.micro_batches, flags.given_sizes));
  require(!flags.fit_batch, "--fit-batch",
          format("{} says how many rows a step has; say how many micro-batches there are: "
                 "--micro-batches {}",
                 given, *flags.micro_batches));
  const int64_t rows =
      std::accumulate(flags.given_sizes.begin(), flags.given_sizes.end(), int64_t{0});
  require(flags.batch.value_or(rows) == rows, "--batch",
          format("{} rows are not the {} of {}; leave one of them out", flags.batch.value_or(rows),
                 rows, given));
  return rows;
}

void take_step(const PlanFlags& flags, const std::optional<schedmp::Schedule>& file,
               PlanRequest& request) {
  request.batch = batch_of(flags);
  request.micro_batches = file ? file->micro_batches
                               : flags.micro_batches.value_or(static_cast<int>(
                                     std::min(request.batch, kDefaultMicroBatches)));
  request.given_sizes = flags.given_sizes;
  request.schedule = flags.schedule.value_or(flags.default_schedule);
  const auto in_flight = in_flight_of(flags, request.schedule);
  request.trains = in_flight->trains();
  request.updates_within = in_flight->updates_within();
}

void take_setting(const PlanFlags& flags, Planned& planned, PlanRequest& request) {
  choose_optimizer(flags, std::nullopt, planned);
  request.setting = under(flags, {});
  request.setting.optimizer_states = states_of(planned);
  request.setting = planned.setting = run_setting(flags, request.setting);
  if (planned.optimizer == "sgd") request.momentum = flags.momentum;
  request.optimizer = flags.optimizer.value_or("");
}

void take_shares(const PlanFlags& flags, PlanRequest& request) {
  if (flags.shares.empty()) return;
  request.shares = runtime::read_file(flags.shares, kMaxText);
  request.shares_origin = flags.shares;
  require(!request.shares.empty(), flags.shares, "the file of shares is empty");
  request.steering.by_shares = true;
}

// Those of a file, numbered as they run; each on the worker of the number that it has there.
void take_stages(const PlanFlags& flags, const partitioner::Model& model, PlanRequest& request) {
  if (flags.assign.empty()) return;
  const partitioner::CostGraph graph = partitioner::cost_graph_of(model, request);
  partitioner::GivenStages given = partitioner::stages_of_names(
      graph, partitioner::read_stages(runtime::read_file(flags.assign, kMaxText), flags.assign));
  if (!given.unsound.empty()) throw Error(ErrorCode::kUsage, given.unsound, flags.assign);
  require(request.placement.empty(), "--schedule",
          format("{} says which stages a worker has, and so does {} of --assign; leave one of them "
                 "out",
                 request.schedule, flags.assign));
  require(!flags.workers || *flags.workers == given.stages, "--workers",
          format("{} has {}, on as many workers", flags.assign, plural(given.stages, "stage")));
  const std::vector<int> number = partitioner::in_running_order(graph, given);
  request.workers = given.stages;
  for (int& stage : given.stage_of) stage = number[static_cast<size_t>(stage)];
  request.given_stages = std::move(given.stage_of);
  request.placement.resize(number.size());
  for (size_t stage = 0; stage < number.size(); ++stage)
    request.placement[static_cast<size_t>(number[stage])] = static_cast<int>(stage);
}

}  // namespace

PlanRequest request_of_flags(const PlanFlags& flags, Planned& planned) {
  PlanRequest request;
  request.source = planned.source;
  const bool automatic = flags.cut == kAutoCut;
  const auto file = schedule_in_file(flags);
  const Asked asked = asked_by(flags.steering, flags.cut, file.has_value(),
                               file ? std::optional(file->workers()) : flags.workers);
  const std::string cut = automatic ? "layer" : asked.cut.value_or("layer");
  check_flags_of_cut(flags.command, automatic ? kAutoCut : cut);
  if (automatic) check_automatic(flags);
  request.steering = asked.steering;
  request.speed.capacities = asked.capacities;
  request.cut = partitioner::parse_cut(cut);
  take_workers(flags, file, request);
  take_step(flags, file, request);
  request.memory = flags.memory;
  request.minimise = at_flag(
      "--objective", [&] { return partitioner::parse_minimise(flags.objective.value_or("time")); });
  take_setting(flags, planned, request);
  take_shape(flags, request);
  request.pairs = flags.pairs.value_or(true);
  request.steering.without_pairs = !request.pairs;
  take_shares(flags, request);
  if (flags.measured)
    request.speed.profile = *flags.measured;
  else if (!flags.profile.empty())
    request.speed.profile = read_profile_file(flags.profile, planned.model);
  request.slack = request.steering.slack = flags.slack;
  if (flags.certify) request.effort = partitioner::kCertifyingEffort;
  take_stages(flags, planned.model, request);
  return request;
}

}  // namespace kerf::apps
