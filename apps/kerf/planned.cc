#include "apps/kerf/planned.h"

#include <chrono>
#include <filesystem>
#include <utility>

#include "apps/kerf/flag_rules.h"
#include "apps/kerf/plan_maker.h"
#include "apps/kerf/plan_request.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/plan_slots.h"
#include "apps/kerf/planned_setting.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/models.h"
#include "apps/report/sign_of_life.h"
#include "apps/report/terminal.h"
#include "partitioner/caps_that_fit.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

// Of stages that share workers, each plan is one that takes a search of its own.
int64_t largest_batch(const PlanMaker& maker, const Planned& planned, bool quietly,
                      const partitioner::PlanRequest& request) {
  if (!has_shared_workers(request))
    return partitioner::largest_batch(planned.model, request, maker.in_flight());
  std::optional<SignOfLife> life;
  if (!quietly) life.emplace(life_on_stderr());
  int tried = 0;
  return partitioner::largest_batch_within(
      request, [&](const partitioner::PlanRequest& each) -> std::optional<partitioner::Plan> {
        if (life) life->tell("fitting the batch", plural(++tried, "plan"));
        Planned made = planned;
        try {
          if (!maker.make_within(each, made)) return std::nullopt;
        } catch (const Error& error) {
          if (error.code() == ErrorCode::kInternal) throw;
          return std::nullopt;  // no plan at all, so none that fits
        }
        return std::move(made.plan);
      });
}

void fit_batch(const PlanMaker& maker, const Planned& planned, bool quietly,
               partitioner::PlanRequest& request) {
  if (!maker.flags().fit_batch) return;
  require(request.is_capped(), "--fit-batch", "it is for a cap; give --memory");
  request.batch = largest_batch(maker, planned, quietly, request);
}

Planned found_by(const PlanFlags& flags, bool quietly, const std::stop_token& stop = {}) {
  check_flags_together(flags.command);
  check_ranges(flags);
  MadeModel made = make_model_with_notes(flags.source());
  Planned planned{flags.source(), std::move(made.model), {}, {}, flags.memory};
  planned.constants = std::move(made.constants);
  planned.folded = std::move(made.folded);
  partitioner::PlanRequest request = request_of_flags(flags, planned);
  const PlanMaker maker(flags, request.schedule, quietly, stop);
  const PlanSlots slots(maker, request.setting.slots);
  const auto start = std::chrono::steady_clock::now();
  const partitioner::Model model = planned.model;
  for (;; planned.model = model) {
    fit_batch(maker, planned, quietly, request);
    if (Lacks lacks = maker.make(request, planned)) {
      planned.model = model;
      if (!slots.raise_for_others(*lacks, planned, request)) {
        slots.follow(planned, request, *lacks);
        throw Error(ErrorCode::kInfeasible, lacks->text());
      }
      planned.setting.slots = request.setting.slots;
      continue;
    }
    if (!slots.raise_for(planned, request)) break;
  }
  planned.plan_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  forget_devices(planned.plan);
  if (!quietly) tell_notes(made.notes);
  return planned;
}

}  // namespace

Planned make_plan_of(const PlanFlags& flags, bool quietly) { return found_by(flags, quietly); }

Planned make_plan_until(const std::stop_token& stop, const PlanFlags& flags) {
  return found_by(flags, true, stop);
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
  std::string text = partitioner::write_plan(planned.model, plan, form);
  require(text.size() <= kMostPlan, file,
          format("the plan's text would be {}, and {} can be read back; write what was decided, by "
                 "--short",
                 human_bytes(static_cast<double>(text.size())),
                 human_bytes(static_cast<double>(kMostPlan))));
  return text;
}

std::string plan_text_to_keep(const Planned& planned) {
  std::string text = partitioner::write_plan(planned.model, planned.plan);
  if (text.size() <= kMostPlan) return text;
  tell_notes({"the plan's text is too large to be read back whole; what was decided is kept"});
  return partitioner::write_plan(planned.model, planned.plan, partitioner::PlanText::kDecisions);
}

}  // namespace kerf::apps
