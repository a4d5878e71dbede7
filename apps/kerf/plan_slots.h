// Slots of a plan's paths. A schedule that is built in has as many as it needs between the plan's
// stages, where nobody said how many. They take memory, so the plan is made again for them, and
// what is told would fit has to fit with those that its own plan wants.
#pragma once

#include "apps/kerf/plan_maker.h"

namespace kerf::apps {

class PlanSlots {
 public:
  explicit PlanSlots(const PlanMaker& maker) : maker_(maker) {}

  // Gives the request, and the setting, the slots that the plan wants; false: it was made for as
  // many. Throws Error{kUsage} where they are more than a path may have.
  bool raise_for(Planned& planned, partitioner::PlanRequest& request) const;
  // Where no plan fits: gives the request the slots that the plan without caps wants, or else that
  // within the memory that is told would do, for they are part of what is to be told; false: it had
  // them.
  bool raise_for_others(const partitioner::Infeasible& told, const Planned& planned,
                        partitioner::PlanRequest& request) const;
  // As many micro-batches as are told would do may want more slots, with which they do not fit:
  // then even more of them, or else memory, are the smallest change.
  void follow_micro_batches(const Planned& planned, const partitioner::PlanRequest& request,
                            partitioner::Infeasible& told) const;

 private:
  bool are_chosen(const partitioner::PlanRequest& request) const;
  Lacks lacks_beside(const Planned& planned, partitioner::PlanRequest& other) const;

  const PlanMaker& maker_;
};

}  // namespace kerf::apps
