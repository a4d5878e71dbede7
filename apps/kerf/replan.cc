#include "apps/kerf/replan.h"

#include <algorithm>
#include <numeric>

#include "apps/kerf/plan_schedule.h"
#include "apps/main/flag_values.h"
#include "apps/profile_file.h"
#include "apps/report/table.h"
#include "partitioner/complete_plan.h"
#include "runtime/format.h"

namespace kerf::apps {

namespace {

using partitioner::Plan;
using partitioner::ValueId;
using partitioner::WorkerPrediction;

constexpr size_t kWeightsShown = 12;  // weights

template <class T, class U>
void fill(std::optional<T>& flag, const U& value) {
  if (!flag) flag = value;
}

// What a worker has of a value, each box once.
std::vector<ops::Box> boxes_on(const Plan& plan, ValueId value, int worker) {
  std::vector<ops::Box> boxes;
  for (const ops::Share& share : plan.layouts[static_cast<size_t>(value)].shares)
    if (plan.binding[static_cast<size_t>(share.part)] == worker &&
        std::find(boxes.begin(), boxes.end(), share.box) == boxes.end())
      boxes.push_back(share.box);
  return boxes;
}

int64_t bytes_of(const ops::ValueSpec& spec, const ops::Box& box) {
  const ops::ValueSpec local{spec.dtype, ops::local_shape(box, spec.shape)};
  return box.empty() ? 0 : static_cast<int64_t>(local.bytes(0));
}

double slowest(const std::vector<WorkerPrediction>& workers) {
  double seconds = 0;
  for (const WorkerPrediction& worker : workers) seconds = std::max(seconds, worker.seconds);
  return seconds;
}

std::string seconds_of(const std::vector<WorkerPrediction>& workers, size_t worker) {
  return worker < workers.size() ? human_seconds(workers[worker].seconds) : "-";
}

// What says who computes what of a free cut goes before the run's.
bool divides(const PlanFlags& flags) {
  return !flags.shares.empty() || flags.steering.pattern || !flags.steering.ways.empty();
}

// Of the step and its setting, all that a plan keeps.
void fill_step(const Plan& plan, const Planned& run, PlanFlags& flags) {
  if (!flags.fit_batch && flags.given_sizes.empty()) fill(flags.batch, plan.batch);
  // Sizes that were given are of as many rows.
  if (!flags.micro_batches && !flags.fit_batch && flags.batch == plan.batch)
    flags.given_sizes = plan.given_sizes;
  fill(flags.micro_batches, plan.micro_batches);
  if (!flags.memory) flags.memory = run.memory;
  if (!flags.optimizer && !flags.momentum) {
    const bool told = plan.request && !plan.request->optimizer.empty();
    if (told || run.optimizer != "sgd") flags.optimizer = run.optimizer;
    if (run.optimizer == "sgd" && run.momentum != kDefaultMomentum) flags.momentum = run.momentum;
  }
  if (!plan.request) return;
  const partitioner::Setting& setting = plan.request->setting;
  if (flags.cut != kAutoCut) fill(flags.objective, to_string(plan.request->minimise));
  fill(flags.slots, setting.slots);
  fill(flags.threads, setting.threads);
  // A transport that has slots in the same place.
  if (setting.slot_place == partitioner::SlotPlace::kBothEnds) fill(flags.transport, "tcp");
  if (setting.slot_place == partitioner::SlotPlace::kExported) fill(flags.transport, "cuda");
}

// One from a file lies in the run's folder, and is for its workers and stages.
void fill_schedule(const Plan& plan, const std::string& folder, PlanFlags& flags) {
  if (flags.schedule) return;
  if (is_built_in(plan.schedule)) {
    flags.schedule = plan.schedule;
    return;
  }
  const bool same = flags.cut == to_string(plan.cut) && flags.workers == plan.workers_bound() &&
                    flags.micro_batches == plan.micro_batches && flags.steering.places.empty() &&
                    !flags.steering.stages_per_worker;
  require(same, "--from-run",
          format("the run in {} went by a schedule of its own, {}, which is for other workers, "
                 "stages or micro-batches; say by --schedule which to plan for",
                 folder, plan.schedule));
  flags.schedule = plan.schedule;
}

// What else was asked of the run's cut, where this one is of its kind.
void fill_steering(const partitioner::KeptRequest& request, PlanFlags& flags) {
  partitioner::Steering steering = request.steering;
  if (divides(flags) && !flags.shares.empty()) {
    steering.pattern.clear();
    steering.ways.clear();
    steering.others.clear();
  }
  // Of a cut that was chosen slack was the choice's, and there is none now.
  if (flags.slack == 0 && !steering.automatic) flags.slack = steering.slack;
  steering.automatic = false;
  steering.by_shares = false;
  flags.steering.of_run = std::move(steering);
}

}  // namespace

std::vector<MovedWeight> moved_weights(const Planned& run, const Planned& anew) {
  std::vector<MovedWeight> moved;
  for (const ValueId id : anew.model.kept_values()) {
    const partitioner::Value& value = anew.model.value(id);
    const ValueId before = run.model.find_value(value.name);
    if (value.literal != nullptr) continue;
    for (int worker = 0; worker < anew.plan.workers_bound(); ++worker) {
      int64_t bytes = 0;
      for (const ops::Box& box : boxes_on(anew.plan, id, worker)) {
        bytes += bytes_of(value.spec, box);
        if (before < 0) continue;
        for (const ops::Box& had : boxes_on(run.plan, before, worker))
          bytes -=
              bytes_of(value.spec, ops::normalized(ops::intersect(box, had), value.spec.shape));
      }
      if (bytes > 0) moved.push_back({value.name, worker, bytes});
    }
  }
  return moved;
}

PlanFlags flags_of_run(PlanFlags flags, const Planned& run, const std::string& folder) {
  const Plan& plan = run.plan;
  const bool by_shares =
      plan.cut == partitioner::Cut::kFree && plan.request && plan.request->steering.by_shares;
  require(!by_shares || flags.cut || divides(flags), "--from-run",
          format("the run in {} was cut by a file of shares, which leaves nothing to choose; say "
                 "what to cut it by with --cut, --way, or --cut free and --shares",
                 folder));
  flags.source_of_run = run.source;
  const bool same_cut = flags.cut ? *flags.cut == to_string(plan.cut) : flags.steering.ways.empty();
  if (same_cut || plan.cut == partitioner::Cut::kFree) fill(flags.cut, to_string(plan.cut));
  fill(flags.workers, plan.workers_bound());
  if (plan.cut == partitioner::Cut::kHybrid && same_cut)
    fill(flags.stages, static_cast<int>(plan.stages.size()));
  fill_step(plan, run, flags);
  fill_schedule(plan, folder, flags);
  if (plan.request && same_cut) fill_steering(*plan.request, flags);
  const bool may_pair =
      plan.cut == partitioner::Cut::kFeature || plan.cut == partitioner::Cut::kHybrid;
  if (plan.request && same_cut && may_pair) fill(flags.pairs, plan.request->pairs);
  if (plan.request && flags.workers == plan.workers_bound())
    flags.steering.devices_of_run = plan.request->capacities;
  if (flags.profile.empty()) flags.profile = folder;
  return flags;
}

Replan compare_with_run(const PlanFlags& flags, const Planned& run, const Planned& anew,
                        const std::string& folder) {
  partitioner::PlanRequest request = partitioner::request_of_plan(run.plan);
  request.speed.profile = read_profile_file(flags.profile, run.model);
  return {.folder = folder,
          .before = run.plan,
          .before_workers = partitioner::predict(run.model, run.plan, request,
                                                 *in_flight_of({}, run.plan.schedule)),
          .profile = flags.profile,
          .moved = moved_weights(run, anew)};
}

Json replan_json(const Replan& replan) {
  Json before = Json::array();
  for (const WorkerPrediction& worker : replan.before_workers)
    before.push_back({{"worker", worker.worker}, {"seconds", worker.seconds}});
  Json moved = Json::array();
  for (const MovedWeight& each : replan.moved)
    moved.push_back({{"name", each.name}, {"to", each.to}, {"bytes", each.bytes}});
  return {{"run", replan.folder}, {"before", std::move(before)}, {"moved", std::move(moved)}};
}

std::string replan_text(const Replan& replan, const Planned& anew, bool colour) {
  const std::vector<WorkerPrediction>& now = anew.plan.workers;
  Table workers({"worker", "as it ran", "anew"});
  for (size_t w = 0; w < std::max(now.size(), replan.before_workers.size()); ++w)
    workers.add({format("{}", w), seconds_of(replan.before_workers, w), seconds_of(now, w)});
  workers.add(
      {"slowest", human_seconds(slowest(replan.before_workers)), human_seconds(slowest(now))});
  std::string text = format("\nby what {} measured:\n\n{}\n", replan.profile, workers.text(colour));
  if (replan.moved.empty()) return text + "no weight moves\n";
  const int64_t bytes =
      std::accumulate(replan.moved.begin(), replan.moved.end(), int64_t{0},
                      [](int64_t sum, const MovedWeight& each) { return sum + each.bytes; });
  Table moved({"weight", "to worker", "bytes"});
  for (size_t i = 0; i < std::min(kWeightsShown, replan.moved.size()); ++i)
    moved.add({replan.moved[i].name, format("{}", replan.moved[i].to),
               bytes_text(replan.moved[i].bytes)});
  if (replan.moved.size() > kWeightsShown)
    moved.add({format("and {} more", replan.moved.size() - kWeightsShown), "", ""});
  return text + moved.text(colour) + format("\n{} of weights would move\n", bytes_text(bytes));
}

}  // namespace kerf::apps
