#include "apps/kerf/planned.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "apps/kerf/flag_rules.h"
#include "apps/kerf/plan_request.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/planned_setting.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/models.h"
#include "apps/report/sign_of_life.h"
#include "apps/report/terminal.h"
#include "partitioner/replicas.h"
#include "partitioner/shared_workers.h"
#include "runtime/error.h"
#include "schedmp/schedules.h"
#include "schedmp/simulate.h"
#include "schedmp/steps.h"
#include "schedmp/verify.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

void fit_batch(const PlanFlags& flags, const partitioner::Model& model,
               const partitioner::InFlight& in_flight, partitioner::PlanRequest& request) {
  if (!flags.fit_batch) return;
  require(request.is_capped(), "--fit-batch", "it is for a cap; give --memory");
  request.batch = partitioner::largest_batch(model, request, in_flight);
}

// What a plan that was asked for lacks; empty: it was made.
using Lacks = std::optional<partitioner::Infeasible>;

// How a plan is searched for.
struct Search {
  bool quietly = false;
  std::stop_token stop = {};

  void end_if_stopped() const {
    if (stop.stop_requested()) throw SearchStopped();
  }
};

// Searches of all kinds ask it again and again.
class InFlightUntil final : public partitioner::InFlight {
 public:
  InFlightUntil(std::unique_ptr<partitioner::InFlight> of, const Search& search)
      : of_(std::move(of)), search_(search) {}
  std::vector<partitioner::Flight> of(const partitioner::Pipeline& pipeline,
                                      int micro_batches) const override {
    search_.end_if_stopped();
    return of_->of(pipeline, micro_batches);
  }
  bool splits() const override { return of_->splits(); }
  bool trains() const override { return of_->trains(); }
  bool updates_within() const override { return of_->updates_within(); }

 private:
  const std::unique_ptr<partitioner::InFlight> of_;
  const Search& search_;
};

// The step of a plan under the schedule that the request names.
std::unique_ptr<partitioner::Objective> step_of(const PlanFlags& flags,
                                                const partitioner::PlanRequest& request,
                                                const Search& search,
                                                const std::function<void()>& on_step = {}) {
  return schedmp::simulated_step(
      [&, on_step](const partitioner::Model& model, const partitioner::Plan& plan) {
        search.end_if_stopped();
        if (on_step) on_step();
        return schedmp::as_it_runs(
            find_schedule(flags, request.schedule, pipeline_of(model, plan), plan.micro_batches),
            plan.stage_of(model.loss()));
      });
}

// Several stages on each worker.
bool has_shared_workers(const partitioner::PlanRequest& request) {
  if (request.cut != partitioner::Cut::kLayer) return false;
  return request.placement.empty() ? request.steering.stages_per_worker > 1
                                   : request.workers > request.workers_bound();
}

Lacks place_stages(const PlanFlags& flags, const partitioner::PlanRequest& request,
                   const partitioner::InFlight& in_flight, const Search& search, Planned& planned) {
  planned.model = partitioner::model_for(planned.model, request);
  std::optional<SignOfLife> life;
  if (!search.quietly) life.emplace(life_on_stderr());
  int tried = 0;
  const auto objective = step_of(flags, request, search, [&] {
    if (life) life->tell("placing stages on workers", plural(++tried, "plan"));
  });
  auto answer = partitioner::plan_shared_workers(planned.model, request, in_flight, *objective);
  if (auto* const lacks = std::get_if<partitioner::Infeasible>(&answer)) return std::move(*lacks);
  planned.plan = std::get<partitioner::Plan>(std::move(answer));
  return {};
}

Lacks make(const PlanFlags& flags, const partitioner::PlanRequest& request,
           const partitioner::InFlight& in_flight, const Search& search, Planned& planned) {
  if (has_shared_workers(request)) return place_stages(flags, request, in_flight, search, planned);
  auto answer = partitioner::plan_model(planned.model, request, in_flight);
  if (auto* const lacks = std::get_if<partitioner::Infeasible>(&answer)) return std::move(*lacks);
  auto& made = std::get<partitioner::PlannedModel>(answer);
  planned.model = std::move(made.model);
  planned.plan = std::move(made.plan);
  return {};
}

Lacks choose(const PlanFlags& flags, const partitioner::PlanRequest& request,
             const partitioner::InFlight& in_flight, const Search& search, Planned& planned) {
  const auto objective = step_of(flags, request, search);
  std::optional<SignOfLife> life;
  if (!search.quietly) life.emplace(life_on_stderr());
  auto answer = partitioner::choose_plan(planned.model, request, in_flight, *objective,
                                         [&](const std::string& what) {
                                           search.end_if_stopped();
                                           if (life) life->tell("choosing a plan", what);
                                         });
  if (auto* const lacks = std::get_if<partitioner::Infeasible>(&answer)) return std::move(*lacks);
  auto& choice = std::get<partitioner::Choice>(answer);
  planned.model = std::move(choice.model);
  planned.plan = std::move(choice.plan);
  planned.tried = std::move(choice.tried);
  return {};
}

// The plan with the replicas that its schedule wants of every stage.
void replicate(const PlanFlags& flags, const partitioner::PlanRequest& request,
               const partitioner::InFlight& in_flight, Planned& planned) {
  partitioner::Plan& plan = planned.plan;
  const schedmp::Schedule schedule =
      find_schedule(flags, request.schedule, pipeline_of(planned.model, plan), plan.micro_batches);
  if (schedule.replicas == 1) return;
  require(!flags.fit_batch, "--fit-batch",
          "it fits plans of one replica; give --batch, or a schedule without replicas");
  plan = partitioner::replicated_plan(planned.model, request, in_flight, std::move(plan),
                                      schedule.groups, schedule.replica_of);
  for (const partitioner::WorkerPrediction& worker : plan.workers)
    if (const auto cap = request.cap_of(worker.worker); cap && worker.peak_bytes > *cap)
      throw Error(
          ErrorCode::kInfeasible,
          format("worker {} has a stage of each of {} replicas, which take {}, {} more than "
                 "its cap of {} bytes; raise it, or choose a schedule without replicas",
                 worker.worker, schedule.replicas, worker.peak_bytes, worker.peak_bytes - *cap,
                 *cap),
          format("schedule {}", schedule.name));
}

// A schedule that is built in has as many slots as it needs between the plan's stages, where nobody
// said how many; then they are part of what the plan is made for.
bool chooses_slots(const PlanFlags& flags, const partitioner::PlanRequest& request) {
  return !flags.slots && is_built_in(request.schedule);
}

int fewest_slots(const Planned& planned, const partitioner::PlanRequest& request) {
  const schedmp::Pipeline pipeline = pipeline_of(planned.model, planned.plan);
  const schedmp::Schedule steps = schedmp::in_full_flight(
      schedmp::as_it_runs(schedmp::make_step(request.schedule, pipeline, request.micro_batches)));
  return schedmp::smallest_buffer(steps, pipeline.graph);
}

bool wants_more_slots(const PlanFlags& flags, Planned& planned, partitioner::PlanRequest& request) {
  if (!chooses_slots(flags, request)) return false;
  const int fewest = fewest_slots(planned, request);
  if (fewest <= request.setting.slots) return false;
  require(
      fewest <= kMostSlots, "--schedule",
      format("{} sends up to {} messages ahead between these stages, and a path has {} slots at "
             "most; use fewer --micro-batches",
             request.schedule, fewest, kMostSlots));
  request.setting.slots = planned.setting.slots = fewest;
  return true;
}

// What another request lacks than the one that nothing fits, with the slots that its plans want,
// which it has then.
Lacks lacks_beside(const PlanFlags& flags, const partitioner::InFlight& in_flight,
                   const Search& search, const Planned& planned, partitioner::PlanRequest& other) {
  try {
    for (;;) {
      Planned of_other = planned;
      if (auto lacks = make(flags, other, in_flight, search, of_other)) return lacks;
      if (!wants_more_slots(flags, of_other, other)) return {};
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return partitioner::Infeasible{};  // whatever it is, there is no plan
  }
}

// Whether plans may differ in the slots that they want, for all that is known.
bool may_differ_in_slots(const partitioner::PlanRequest& request) {
  return has_shared_workers(request) || request.setting.slots != partitioner::Setting{}.slots;
}

// Whether the plan without caps, or that within the memory that is told would do, wants more slots
// than were planned for; then they are part of what is to be told.
bool others_want_more_slots(const PlanFlags& flags, const partitioner::InFlight& in_flight,
                            const Search& search, const partitioner::Infeasible& told,
                            const Planned& planned, partitioner::PlanRequest& request) {
  if (flags.cut == kAutoCut || !chooses_slots(flags, request)) return false;
  std::vector<partitioner::PlanRequest> others{request.without_caps()};
  if (may_differ_in_slots(request) && told.of_device < 0 && told.is_enough) {
    others.push_back(request);
    others.back().memory = told.cap + told.over;
  }
  for (partitioner::PlanRequest& other : others) {
    lacks_beside(flags, in_flight, search, planned, other);
    if (other.setting.slots == request.setting.slots) continue;
    request.setting.slots = other.setting.slots;
    return true;
  }
  return false;
}

// As many micro-batches as are told would do may want more slots, with which they do not fit: then
// even more of them, or else memory, are the smallest change.
void follow_micro_batches(const PlanFlags& flags, const partitioner::InFlight& in_flight,
                          const Search& search, const Planned& planned,
                          const partitioner::PlanRequest& request, partitioner::Infeasible& told) {
  if (flags.cut == kAutoCut || !chooses_slots(flags, request)) return;
  if (!may_differ_in_slots(request)) return;
  while (told.micro_batches > 0) {
    partitioner::PlanRequest followed = request;
    followed.given_sizes.clear();
    followed.micro_batches = told.micro_batches;
    const Lacks lacks = lacks_beside(flags, in_flight, search, planned, followed);
    if (!lacks) return;
    told.tell_micro_batches(request, lacks->micro_batches);
  }
}

Planned found_by(const PlanFlags& flags, const Search& search) {
  check_flags_together(flags.command);
  check_ranges(flags);
  MadeModel made = make_model_with_notes(flags.source());
  Planned planned{flags.source(), std::move(made.model), {}, {}, flags.memory};
  planned.constants = std::move(made.constants);
  planned.folded = std::move(made.folded);
  partitioner::PlanRequest request = request_of_flags(flags, planned);
  const InFlightUntil in_flight(in_flight_of(flags, request.schedule), search);
  const auto start = std::chrono::steady_clock::now();
  const partitioner::Model model = planned.model;
  for (;; planned.model = model) {
    fit_batch(flags, planned.model, in_flight, request);
    Lacks lacks = flags.cut == kAutoCut ? choose(flags, request, in_flight, search, planned)
                                        : make(flags, request, in_flight, search, planned);
    if (lacks) {
      planned.model = model;
      if (!others_want_more_slots(flags, in_flight, search, *lacks, planned, request)) {
        follow_micro_batches(flags, in_flight, search, planned, request, *lacks);
        throw Error(ErrorCode::kInfeasible, lacks->text());
      }
      planned.setting.slots = request.setting.slots;
      continue;
    }
    replicate(flags, request, in_flight, planned);
    if (!wants_more_slots(flags, planned, request)) break;
  }
  planned.plan_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  forget_devices(planned.plan);
  if (!search.quietly) tell_notes(made.notes);
  return planned;
}

}  // namespace

Planned make_plan_of(const PlanFlags& flags, bool quietly) {
  return found_by(flags, {.quietly = quietly});
}

Planned make_plan_until(const std::stop_token& stop, const PlanFlags& flags) {
  return found_by(flags, {.quietly = true, .stop = stop});
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
