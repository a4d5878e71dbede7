#include "apps/kerf/plan_slots.h"

#include <vector>

#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/planned_setting.h"
#include "apps/main/flag_values.h"
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

// What another request lacks than the one that nothing fits, with the slots that its plans want,
// which it has then.
Lacks PlanSlots::lacks_beside(const Planned& planned, partitioner::PlanRequest& other) const {
  try {
    for (;;) {
      Planned of_other = planned;
      if (auto lacks = maker_.make(other, of_other)) return lacks;
      if (!raise_for(of_other, other)) return {};
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return partitioner::Infeasible{};  // whatever it is, there is no plan
  }
}

bool PlanSlots::raise_for_others(const partitioner::Infeasible& told, const Planned& planned,
                                 partitioner::PlanRequest& request) const {
  if (maker_.is_automatic() || !are_chosen(request)) return false;
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

void PlanSlots::follow_micro_batches(const Planned& planned,
                                     const partitioner::PlanRequest& request,
                                     partitioner::Infeasible& told) const {
  if (maker_.is_automatic() || !are_chosen(request) || !may_differ(request)) return;
  while (told.micro_batches > 0) {
    partitioner::PlanRequest followed = request;
    followed.given_sizes.clear();
    followed.micro_batches = told.micro_batches;
    const Lacks lacks = lacks_beside(planned, followed);
    if (!lacks) return;
    told.tell_micro_batches(request, lacks->micro_batches);
  }
}

}  // namespace kerf::apps
