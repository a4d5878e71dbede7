#include "apps/kerf/plan_slots.h"

#include <utility>
#include <vector>

#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/planned_setting.h"
#include "apps/main/flag_values.h"
#include "partitioner/caps_that_fit.h"
#include "partitioner/smallest_change.h"
#include "runtime/error.h"
#include "schedmp/schedules.h"
#include "schedmp/steps.h"
#include "schedmp/verify.h"

namespace kerf::apps {

namespace {

int fewest_slots(const Planned& planned, const partitioner::PlanRequest& request) {
  const schedmp::Pipeline pipeline = pipeline_of(planned.model, planned.plan);
  const schedmp::Schedule steps = schedmp::in_full_flight(
      schedmp::as_it_runs(schedmp::make_step(request.schedule, pipeline, request.micro_batches)));
  return schedmp::smallest_buffer(steps, pipeline.graph);
}

// Whether plans may differ in the slots that they want, for all that is known.
bool may_differ(const partitioner::PlanRequest& request) {
  return has_shared_workers(request) || request.setting.slots != partitioner::Setting{}.slots;
}

}  // namespace

bool PlanSlots::are_chosen(const partitioner::PlanRequest& request) const {
  return !maker_.flags().slots && is_built_in(request.schedule);
}

bool PlanSlots::raise_for(Planned& planned, partitioner::PlanRequest& request) const {
  if (!are_chosen(request)) return false;
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

// Another request than the one that nothing fits, with the slots that its plans want, which it has
// then.
Lacks PlanSlots::make_beside(const Planned& planned, partitioner::PlanRequest& other,
                             Planned& made) const {
  for (;;) {
    made = planned;
    if (auto lacks = maker_.make(other, made)) return lacks;
    if (!raise_for(made, other)) return {};
  }
}

Lacks PlanSlots::lacks_beside(const Planned& planned, partitioner::PlanRequest& other) const {
  try {
    Planned made;
    return make_beside(planned, other, made);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return partitioner::Infeasible{};  // whatever it is, there is no plan
  }
}

std::optional<partitioner::Plan> PlanSlots::plan_beside(const Planned& planned,
                                                        partitioner::PlanRequest other) const {
  other.setting.slots = had_;
  try {
    for (;;) {
      Planned made = planned;
      if (!maker_.make_within(other, made)) return std::nullopt;
      if (!raise_for(made, other)) return std::move(made.plan);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return std::nullopt;
  }
}

bool PlanSlots::raise_for_others(const partitioner::Infeasible& told, const Planned& planned,
                                 partitioner::PlanRequest& request) const {
  if (maker_.is_automatic() || maker_.has_replicas() || !are_chosen(request)) return false;
  std::vector<partitioner::PlanRequest> others{request.without_caps()};
  if (may_differ(request) && told.of_device < 0 && told.is_enough) {
    others.push_back(request);
    others.back().memory = told.cap + told.over;
  }
  for (partitioner::PlanRequest& other : others) {
    lacks_beside(planned, other);
    if (other.setting.slots == request.setting.slots) continue;
    request.setting.slots = other.setting.slots;
    return true;
  }
  return false;
}

void PlanSlots::follow(const Planned& planned, const partitioner::PlanRequest& request,
                       partitioner::Infeasible& told) const {
  if (maker_.has_replicas()) return tell_with_replicas(planned, request, told);
  if (maker_.is_automatic() || !are_chosen(request) || !may_differ(request)) return;
  follow_micro_batches(planned, request, told);
  if (told.micro_batches == 0 && request.speed.capacities.has_caps())
    tell_devices(planned, request, told);
}

void PlanSlots::follow_micro_batches(const Planned& planned,
                                     const partitioner::PlanRequest& request,
                                     partitioner::Infeasible& told) const {
  while (told.micro_batches > 0) {
    partitioner::PlanRequest followed = request;
    followed.given_sizes.clear();
    followed.micro_batches = told.micro_batches;
    const Lacks lacks = lacks_beside(planned, followed);
    if (!lacks) return;
    told.tell_micro_batches(request, lacks->micro_batches);
  }
}

void PlanSlots::tell_devices(const Planned& planned, const partitioner::PlanRequest& request,
                             partitioner::Infeasible& told) const {
  partitioner::PlanRequest followed = partitioner::tell_memory(
      partitioner::model_for(planned.model, request), request, maker_.in_flight(), told);
  followed.setting.slots = had_;
  if (lacks_beside(planned, followed)) tell_caps(planned, request, told);
}

// Throws what is no matter of memory.
void PlanSlots::tell_caps(const Planned& planned, const partitioner::PlanRequest& request,
                          partitioner::Infeasible& told) const {
  partitioner::PlanRequest free = request.without_caps();
  Planned made;
  const Lacks lacks = make_beside(planned, free, made);
  KERF_CHECK(!lacks, "a plan without caps lacks memory");
  partitioner::tell_caps_that_fit(
      request, made.plan,
      [&](const partitioner::PlanRequest& caps) { return plan_beside(planned, caps); }, told);
}

// A schedule's file says how many micro-batches there are.
void PlanSlots::tell_with_replicas(const Planned& planned, const partitioner::PlanRequest& request,
                                   partitioner::Infeasible& told) const {
  tell_caps(planned, request, told);
  if (!is_built_in(request.schedule)) return;
  const int fewest = partitioner::micro_batches_that_fit(
      planned.model, request, maker_.in_flight(),
      [&](const partitioner::PlanRequest& more) { return plan_beside(planned, more); });
  if (fewest > 0) told.tell_micro_batches(request, fewest);
}

}  // namespace kerf::apps
