#include "apps/kerf/planned.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "apps/kerf/answer.h"
#include "apps/kerf/flag_values.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/models.h"
#include "apps/profile_file.h"
#include "apps/report/sign_of_life.h"
#include "apps/report/terminal.h"
#include "ops/optimizer.h"
#include "partitioner/complete_plan.h"
#include "partitioner/given_stages.h"
#include "partitioner/model_graph.h"
#include "partitioner/rewrite.h"
#include "runtime/channel.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "schedmp/schedules.h"
#include "schedmp/simulate.h"
#include "schedmp/training/proof.h"
#include "schedmp/verify.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

constexpr int kMostSlots = 1024;
constexpr int64_t kDefaultMicroBatches = 8;  // of batches that have as many rows

void check(const PlanFlags& flags) {
  check_range(flags.workers, "--workers", kMostWorkers);
  check_range(flags.stages, "--stages", kMostWorkers);
  check_range(flags.batch, "--batch", partitioner::kMostRows);
  check_range(flags.micro_batches, "--micro-batches", partitioner::kMostMicroBatches);
  check_range(flags.slots, "--slots", kMostSlots);
  check_range(flags.threads, "--threads", kMostThreads);
  const double momentum = flags.momentum.value_or(0);
  require(momentum >= 0 && momentum < 1, "--momentum", format("{} is not within [0, 1)", momentum));
  require(momentum == 0 || flags.optimizer.value_or("sgd") == "sgd", "--momentum",
          format("it is of sgd; {} has --beta1", flags.optimizer.value_or("")));
  if (flags.memory) require(*flags.memory >= 1, "--memory", "it must be positive");
}

partitioner::Minimise parse_objective(const std::string& name) {
  try {
    return partitioner::parse_minimise(name);
  } catch (const Error& error) {
    throw Error(error.code(), error.message(), "--objective");
  }
}

// Stages that are one worker's each go where the file has them, several to a worker too.
std::vector<int> placement_of(const schedmp::Schedule& schedule) {
  std::vector<int> placement;
  for (const std::vector<int>& group : schedule.groups) {
    if (group.size() != 1) return {};
    placement.push_back(group[0]);
  }
  return placement;
}

template <class T>
void check_agrees(const std::optional<T>& flag, const T& plan, const std::string& name,
                  const std::string& file) {
  if (flag && *flag != plan)
    throw Error(ErrorCode::kUsage,
                format("{} {} contradicts the plan, which says {}; leave the flag out, or make "
                       "another plan with kerf plan",
                       name, *flag, plan),
                file);
}

partitioner::SlotPlace slot_place_over(const std::string& transport) {
  return schedmp::slot_place_of(runtime::parse_transport(transport));
}

// The optimizer as the flags say, or the plan's request, or as follows from its states.
void choose_optimizer(const PlanFlags& flags,
                      const std::optional<partitioner::KeptRequest>& request, Planned& planned) {
  const bool told = request && !request->optimizer.empty();
  planned.optimizer = flags.optimizer.value_or(told ? request->optimizer : "sgd");
  const bool stateless = request && request->setting.optimizer_states == 0;
  const auto kept = request ? request->momentum : std::nullopt;
  planned.momentum = planned.optimizer != "sgd"
                         ? 0
                         : flags.momentum.value_or(kept.value_or(stateless ? 0 : kDefaultMomentum));
  require(planned.optimizer == "sgd" || flags.momentum.value_or(0) == 0, "--momentum",
          format("it is of sgd; {} has --beta1", planned.optimizer));
}

int states_of(const Planned& planned) {
  return ops::Optimizer({.name = planned.optimizer, .momentum = planned.momentum}).states();
}

// What was given goes before `setting`.
partitioner::Setting under(const PlanFlags& flags, partitioner::Setting setting) {
  setting.slots = flags.slots.value_or(setting.slots);
  setting.threads = flags.threads.value_or(setting.threads);
  if (flags.transport) setting.slot_place = slot_place_over(*flags.transport);
  // Where all are CPUs, which is what a plan was made for where nobody says anything, nothing is
  // another.
  const bool other = std::any_of(flags.devices.begin(), flags.devices.end(),
                                 [](auto kind) { return kind != runtime::DeviceKind::kCpu; });
  setting.devices = other ? flags.devices : std::vector<runtime::DeviceKind>{};
  return setting;
}

// Kernels of other devices take other scratch memory, but a plan's text says nothing of devices.
void forget_devices(partitioner::Plan& plan) {
  if (plan.request) plan.request->setting.devices.clear();
}

// Where no flag says what a run goes over, it is no plan's to say.
partitioner::Setting run_setting(const PlanFlags& flags, partitioner::Setting setting) {
  setting.slot_place = slot_place_over(flags.transport.value_or(kPlannedTransport));
  return setting;
}

// The plan stays; what it will take does not.
void predict_anew(const PlanFlags& flags, Planned& planned, const partitioner::Setting& setting) {
  if (planned.plan.request) planned.plan.request->setting = setting;
  forget_devices(planned.plan);
  partitioner::PlanRequest request = partitioner::request_of_plan(planned.plan);
  request.setting = setting;
  planned.plan.workers = partitioner::predict(planned.model, planned.plan, request,
                                              *in_flight_of(flags, planned.plan.schedule));
}

// What flags change may take more than a device has that the plan was made for.
void check_devices(const partitioner::Plan& plan) {
  if (!plan.request) return;
  for (const partitioner::WorkerPrediction& worker : plan.workers)
    if (const auto cap = plan.request->capacities.memory_of(worker.worker);
        cap && worker.peak_bytes > *cap)
      throw Error(ErrorCode::kInfeasible,
                  format("worker {} would take {} bytes, but its device has {}, as the plan says; "
                         "leave the flags out that it was not made for, or make another plan",
                         worker.worker, worker.peak_bytes, *cap));
}

// The schedule and the request of a plan that was read, under what the flags say.
void run_under(const PlanFlags& flags, Planned& planned) {
  auto& request = planned.plan.request;
  choose_optimizer(flags, request, planned);
  const bool other_optimizer = flags.optimizer || flags.momentum;
  if (request && other_optimizer) {
    request->optimizer = flags.optimizer.value_or(request->optimizer);
    request->momentum = planned.optimizer == "sgd" ? std::optional(planned.momentum) : std::nullopt;
  }
  const partitioner::Setting made_for = request ? request->setting : partitioner::Setting{};
  partitioner::Setting setting = under(flags, made_for);
  if (other_optimizer) setting.optimizer_states = states_of(planned);
  planned.setting = run_setting(flags, setting);
  if (request) planned.more_states = setting.optimizer_states - made_for.optimizer_states;
  planned.memory = flags.memory ? flags.memory : request ? request->memory : std::nullopt;
  if (request) request->memory = planned.memory;
  const bool other = flags.schedule && *flags.schedule != planned.plan.schedule;
  if (other) planned.plan.schedule = *flags.schedule;
  if (!other && (!request || setting == made_for)) return;
  predict_anew(flags, planned, setting);
  check_devices(planned.plan);
}

// Those of a file, numbered as they run; each on the worker of the number that it has there.
void take_stages(const PlanFlags& flags, const partitioner::Model& model,
                 partitioner::PlanRequest& request) {
  require(request.cut == partitioner::Cut::kLayer && flags.cut != kAutoCut, "--assign",
          "it is for --cut layer");
  const partitioner::CostGraph graph = partitioner::cost_graph_of(model, request);
  partitioner::GivenStages given = partitioner::stages_of_names(
      graph, partitioner::read_stages(runtime::read_file(flags.assign, kMaxText), flags.assign));
  if (!given.unsound.empty()) throw Error(ErrorCode::kUsage, given.unsound, flags.assign);
  require(request.placement.empty() && (!flags.workers || *flags.workers == given.stages),
          "--assign", format("it has {}, on as many workers", plural(given.stages, "stage")));
  const std::vector<int> number = partitioner::in_running_order(graph, given);
  request.workers = given.stages;
  for (int& stage : given.stage_of) stage = number[static_cast<size_t>(stage)];
  request.given_stages = std::move(given.stage_of);
  if (std::is_sorted(number.begin(), number.end())) return;
  request.placement.resize(number.size());
  for (size_t stage = 0; stage < number.size(); ++stage)
    request.placement[static_cast<size_t>(number[stage])] = static_cast<int>(stage);
}

void fit_batch(const PlanFlags& flags, const partitioner::Model& model,
               const partitioner::InFlight& in_flight, partitioner::PlanRequest& request) {
  require(request.is_capped(), "--fit-batch", "it is for a cap; give --memory");
  require(!flags.batch, "--fit-batch", "it finds what --batch would say; leave one of them out");
  request.batch = partitioner::largest_batch(model, request, in_flight);
}

// What it has no use for: it chooses the stages, and with them the workers of each.
void check_automatic(const PlanFlags& flags) {
  require(!flags.fit_batch, "--fit-batch", "it is for a cut that is given, not for --cut auto");
  require(is_built_in(flags.schedule.value_or(flags.default_schedule)), "--cut",
          "a schedule's file says which stages there are; give the cut that it is for, or a "
          "schedule by its name");
  require(flags.objective.value_or("time") == "time", "--objective",
          "--cut auto takes the plan of the shortest step; leave the flag out");
}

template <class Answer>
void refuse_infeasible(const Answer& answer) {
  if (const auto* why = std::get_if<partitioner::Infeasible>(&answer))
    throw Error(ErrorCode::kInfeasible, why->text());
}

void make(const partitioner::PlanRequest& request, const partitioner::InFlight& in_flight,
          Planned& planned) {
  planned.model = partitioner::model_for(planned.model, request);
  auto answer = partitioner::make_plan(planned.model, request, in_flight);
  refuse_infeasible(answer);
  planned.plan = std::get<partitioner::Plan>(std::move(answer));
}

SignOfLife::Options life_on_stderr() {
  return {.terminal = takes_escapes(STDERR_FILENO),
          .width = [] { return terminal_width(STDERR_FILENO); },
          .now = {},
          .write =
              [](const std::string& text) {
                std::fputs(text.c_str(), stderr);
                std::fflush(stderr);
              }};
}

void choose(const partitioner::PlanRequest& request, const partitioner::InFlight& in_flight,
            Planned& planned) {
  const auto objective = schedmp::simulated_step([&](const partitioner::Plan& plan) {
    return schedmp::make_schedule(request.schedule, schedmp::groups_of(plan), plan.micro_batches);
  });
  SignOfLife life(life_on_stderr());
  auto answer = partitioner::choose_plan(
      planned.model, request, in_flight, *objective,
      [&](const std::string& what) { life.tell("choosing a plan", what); });
  refuse_infeasible(answer);
  auto& choice = std::get<partitioner::Choice>(answer);
  planned.model = std::move(choice.model);
  planned.plan = std::move(choice.plan);
  planned.tried = std::move(choice.tried);
}

// The model that a plan's request names, for flags that name none: a look at a text that is not
// trusted yet.
std::string source_of(const PlanFlags& flags, const std::string& text, const std::string& file) {
  if (flags.says_model()) return flags.source();
  const Json plan = parse_json(text, file);
  if (!plan.is_object() || !plan.contains("request")) return flags.source();
  const Json& request = plan["request"];
  if (!request.is_object() || !request.contains("source")) return flags.source();
  return json_string(request, "source", file + ": request");
}

MadeModel model_of_plan(const std::string& source, const std::string& text,
                        const std::string& file) {
  try {
    MadeModel made = make_model_with_notes(source);
    made.model = partitioner::rewritten(made.model, partitioner::rewrites_of_plan(text, file));
    return made;
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), file);
  }
}

// A schedule's file lies where the plan says, seen from the plan, or else from here, as plans of
// earlier versions had it.
std::string beside(const std::string& plan_file, const std::string& schedule) {
  const fs::path path = fs::path(plan_file).parent_path() / schedule;
  std::error_code absent;
  return !is_built_in(schedule) && fs::is_regular_file(path, absent) ? path.string() : schedule;
}

}  // namespace

Planned make_plan_of(const PlanFlags& flags) {
  check(flags);
  MadeModel made = make_model_with_notes(flags.source());
  Planned planned{flags.source(), std::move(made.model), {}, {}, flags.memory};
  planned.constants = std::move(made.constants);
  planned.folded = std::move(made.folded);
  partitioner::PlanRequest request;
  request.source = planned.source;
  const bool automatic = flags.cut == kAutoCut;
  if (automatic) check_automatic(flags);
  const auto file = schedule_in_file(flags);
  const Asked asked = asked_by(flags.steering, flags.cut, !flags.shares.empty(), file.has_value(),
                               file ? std::optional(file->workers()) : flags.workers);
  request.steering = asked.steering;
  request.speed.capacities = asked.capacities;
  request.cut = partitioner::parse_cut(automatic ? "layer" : asked.cut.value_or("layer"));
  const auto listed = static_cast<int>(asked.capacities.workers.size());
  request.workers =
      file ? file->workers() : flags.workers.value_or(listed > 0 ? listed : flags.default_workers);
  if (file && request.cut == partitioner::Cut::kLayer) request.placement = placement_of(*file);
  if (!request.placement.empty()) request.workers = file->stages();
  request.stages = flags.stages.value_or(0);
  request.batch = flags.batch.value_or(128);
  request.micro_batches = file ? file->micro_batches
                               : flags.micro_batches.value_or(static_cast<int>(
                                     std::min(request.batch, kDefaultMicroBatches)));
  request.schedule = flags.schedule.value_or(flags.default_schedule);
  request.memory = flags.memory;
  request.minimise = parse_objective(flags.objective.value_or("time"));
  choose_optimizer(flags, std::nullopt, planned);
  request.setting = under(flags, {});
  request.setting.optimizer_states = states_of(planned);
  request.setting = planned.setting = run_setting(flags, request.setting);
  request.momentum = flags.momentum;
  request.optimizer = flags.optimizer.value_or("");
  require(request.cut == partitioner::Cut::kHybrid || !flags.stages, "--stages",
          "it is for --cut hybrid only");
  require(automatic || request.cut == partitioner::Cut::kFeature ||
              request.cut == partitioner::Cut::kHybrid || !flags.pairs,
          "--pairs", "it is for --cut feature and hybrid only");
  request.pairs = flags.pairs.value_or(true);
  const bool free = request.cut == partitioner::Cut::kFree;
  require(automatic || free || flags.shares.empty(), "--shares", "it is for --cut free only");
  if (!flags.shares.empty()) {
    request.shares = runtime::read_file(flags.shares, kMaxText);
    request.shares_origin = flags.shares;
    require(!request.shares.empty(), flags.shares, "the file of shares is empty");
  }
  if (!flags.profile.empty())
    request.speed.profile = read_profile_file(flags.profile, planned.model);
  const auto in_flight = in_flight_of(flags, request.schedule);
  request.slack = flags.slack;
  if (!flags.assign.empty()) take_stages(flags, planned.model, request);
  if (flags.certify) request.effort = partitioner::kCertifyingEffort;
  const auto start = std::chrono::steady_clock::now();
  if (flags.fit_batch) fit_batch(flags, planned.model, *in_flight, request);
  if (automatic)
    choose(request, *in_flight, planned);
  else
    make(request, *in_flight, planned);
  planned.plan_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  forget_devices(planned.plan);
  tell_notes(made.notes);
  return planned;
}

Planned read_plan_of(const PlanFlags& flags, const std::string& file_or_folder) {
  check(flags);
  std::error_code absent;
  const std::string file = fs::is_directory(file_or_folder, absent)
                               ? (fs::path(file_or_folder) / kPlanFile).string()
                               : file_or_folder;
  const std::string text = runtime::read_file(file, kMaxText);
  const std::string source = source_of(flags, text, file);
  MadeModel made = model_of_plan(source, text, file);
  Planned planned{source, std::move(made.model), {}, {}, {}};
  planned.constants = std::move(made.constants);
  planned.folded = std::move(made.folded);
  planned.plan =
      partitioner::read_plan(planned.model, text, file, [&](const std::string& schedule) {
        return in_flight_of_plan(flags, beside(file, schedule));
      });
  planned.plan.schedule = beside(file, planned.plan.schedule);
  check_agrees(flags.workers, planned.plan.workers_bound(), "--workers", file);
  check_agrees(flags.cut, std::string(partitioner::to_string(planned.plan.cut)), "--cut", file);
  check_agrees(flags.batch, planned.plan.batch, "--batch", file);
  check_agrees(flags.micro_batches, planned.plan.micro_batches, "--micro-batches", file);
  check_agrees(flags.stages, static_cast<int>(planned.plan.stages.size()), "--stages", file);
  require(flags.shares.empty(), "--shares", "the plan has its shares; leave the flag out");
  refuse_steering(flags.steering, "the plan is made already; leave the flag out");
  require(!flags.objective, "--objective", "the plan is made already; leave the flag out");
  require(!flags.pairs, "--pairs", "the plan is made already; leave the flag out");
  require(flags.profile.empty(), "--profile", "the plan is made already; leave the flag out");
  run_under(flags, planned);
  check_range(std::optional(planned.setting.slots), file + ": request.slots", kMostSlots);
  check_range(std::optional(planned.setting.threads), file + ": request.threads", kMostThreads);
  tell_notes(made.notes);
  return planned;
}

Planned planned_by(const PlanFlags& flags, const std::string& file) {
  return file.empty() ? make_plan_of(flags) : read_plan_of(flags, file);
}

std::string plan_text_for(const Planned& planned, const std::string& file,
                          partitioner::PlanText form) {
  partitioner::Plan plan = planned.plan;
  if (!is_built_in(plan.schedule))
    plan.schedule =
        fs::absolute(plan.schedule).lexically_proximate(fs::absolute(file).parent_path()).string();
  return partitioner::write_plan(planned.model, plan, form);
}

}  // namespace kerf::apps
