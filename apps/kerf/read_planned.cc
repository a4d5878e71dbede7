// Plans of files: read, and under what the flags say of their run.
#include <filesystem>
#include <utility>

#include "apps/kerf/flag_rules.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/planned.h"
#include "apps/kerf/planned_setting.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/models.h"
#include "partitioner/complete_plan.h"
#include "partitioner/rewrite.h"
#include "partitioner/stage_price.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_contradiction(const std::string& flag, const std::string& plan,
                                       const std::string& file) {
  throw Error(ErrorCode::kUsage,
              format("{} contradicts the plan, which says {}; leave the flag out, or make another "
                     "plan with kerf plan",
                     flag, plan),
              file);
}

template <class T>
void check_agrees(const std::optional<T>& flag, const T& plan, const std::string& name,
                  const std::string& file) {
  if (flag && *flag != plan)
    refuse_contradiction(format("{} {}", name, *flag), format("{}", plan), file);
}

// A number is one of even ones.
void check_micro_batches_agree(const PlanFlags& flags, const partitioner::Plan& plan,
                               const std::string& file) {
  if (!flags.micro_batches ||
      (*flags.micro_batches == plan.micro_batches && flags.given_sizes == plan.given_sizes))
    return;
  refuse_contradiction(
      "--micro-batches " + partitioner::sizes_text(*flags.micro_batches, flags.given_sizes),
      partitioner::sizes_text(plan.micro_batches, plan.given_sizes), file);
}

// The plan stays; what it will take does not.
void predict_anew(const PlanFlags& flags, Planned& planned, const partitioner::Setting& setting) {
  partitioner::Plan& plan = planned.plan;
  const auto in_flight = in_flight_of(flags, plan.schedule);
  const bool other_prices = plan.request && plan.request->trains != in_flight->trains();
  if (plan.request) {
    plan.request->setting = setting;
    plan.request->trains = in_flight->trains();
  }
  forget_devices(plan);
  partitioner::PlanRequest request = partitioner::request_of_plan(plan);
  request.setting = setting;
  plan.workers = partitioner::predict(planned.model, plan, request, *in_flight);
  if (!other_prices) return;
  plan.bottleneck = partitioner::bottleneck_of(planned.model, plan, request);
  plan.bound.reset();  // that of other work
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
  if (!other) require_schedule_of(planned);
  predict_anew(flags, planned, setting);
  check_devices(planned.plan);
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

Planned read_plan_of(const PlanFlags& flags, const std::string& file_or_folder) {
  check_flags_together(flags.command);
  check_ranges(flags);
  std::error_code absent;
  const std::string file = fs::is_directory(file_or_folder, absent)
                               ? (fs::path(file_or_folder) / kPlanFile).string()
                               : file_or_folder;
  const std::string text = runtime::read_file(file, kMostPlan);
  const std::string source = source_of(flags, text, file);
  MadeModel made = model_of_plan(source, text, file);
  Planned planned{source, std::move(made.model), {}, {}, {}};
  planned.constants = std::move(made.constants);
  planned.folded = std::move(made.folded);
  planned.file = file;
  planned.plan =
      partitioner::read_plan(planned.model, text, file, [&](const std::string& schedule) {
        return in_flight_of_plan(flags, beside(file, schedule));
      });
  planned.plan.schedule = beside(file, planned.plan.schedule);
  check_agrees(flags.workers, planned.plan.workers_bound(), "--workers", file);
  check_agrees(flags.cut, std::string(partitioner::to_string(planned.plan.cut)), "--cut", file);
  check_agrees(flags.batch, planned.plan.batch, "--batch", file);
  check_micro_batches_agree(flags, planned.plan, file);
  check_agrees(flags.stages, static_cast<int>(planned.plan.stages.size()), "--stages", file);
  run_under(flags, planned);
  check_range(std::optional(planned.setting.slots), file + ": request.slots", kMostSlots);
  check_range(std::optional(planned.setting.threads), file + ": request.threads", kMostThreads);
  tell_notes(made.notes);
  return planned;
}

}  // namespace kerf::apps
