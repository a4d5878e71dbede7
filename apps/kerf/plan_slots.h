// Slots of a plan's paths. A schedule that is built in has as many as it needs between the plan's
// stages, where nobody said how many. They take memory, so the plan is made again for them, and
// what is told would fit has to fit with those that its own plan wants, and with its replicas.
#pragma once

#include <optional>

#include "apps/kerf/plan_maker.h"

namespace kerf::apps {

class PlanSlots {
 public:
  // `had`: those of the request before any were raised.
  PlanSlots(const PlanMaker& maker, int had) : maker_(maker), had_(had) {}

  // Gives the request, and the setting, the slots that the plan wants; false: it was made for as
  // many. Throws Error{kUsage} where they are more than a path may have.
  bool raise_for(Planned& planned, partitioner::PlanRequest& request) const;
  // Where no plan fits: gives the request the slots that the plan without caps wants, or else that
  // within the memory that is told would do, for they are part of what is to be told; false: it had
  // them.
  bool raise_for_others(const partitioner::Infeasible& told, const Planned& planned,
                        partitioner::PlanRequest& request) const;
  // Makes what is told hold for plans as they will run. As many micro-batches may want more slots,
  // with which they do not fit: then even more of them, or else memory, are the smallest change.
  void follow(const Planned& planned, const partitioner::PlanRequest& request,
              partitioner::Infeasible& told) const;

 private:
  bool are_chosen(const partitioner::PlanRequest& request) const;
  Lacks make_beside(const Planned& planned, partitioner::PlanRequest& other, Planned& made) const;
  Lacks lacks_beside(const Planned& planned, partitioner::PlanRequest& other) const;
  std::optional<partitioner::Plan> plan_beside(const Planned& planned,
                                               partitioner::PlanRequest other) const;
  void follow_micro_batches(const Planned& planned, const partitioner::PlanRequest& request,
                            partitioner::Infeasible& told) const;
  void tell_devices(const Planned& planned, const partitioner::PlanRequest& request,
                    partitioner::Infeasible& told) const;
  void tell_caps(const Planned& planned, const partitioner::PlanRequest& request,
                 partitioner::Infeasible& told) const;
  void tell_with_replicas(const Planned& planned, const partitioner::PlanRequest& request,
                          partitioner::Infeasible& told) const;

  const PlanMaker& maker_;
  const int had_;
};

}  // namespace kerf::apps
