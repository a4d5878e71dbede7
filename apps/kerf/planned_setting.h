// The setting and the optimizer of a plan, as flags, its request and defaults say in that order;
// shared by who makes plans and who reads them.
#pragma once

#include <optional>

#include "apps/kerf/planned.h"

namespace kerf::apps {

inline constexpr int kMostSlots = 1024;

// Of numbers that no plan can have. Throws Error{kUsage} at the flag.
void check_ranges(const PlanFlags& flags);

// The optimizer as the flags say, or the plan's request, or as follows from its states.
void choose_optimizer(const PlanFlags& flags,
                      const std::optional<partitioner::KeptRequest>& request, Planned& planned);
// That it has for each parameter.
int states_of(const Planned& planned);

// What was given goes before `setting`.
partitioner::Setting under(const PlanFlags& flags, partitioner::Setting setting);
// Where no flag says what a run goes over, it is no plan's to say.
partitioner::Setting run_setting(const PlanFlags& flags, partitioner::Setting setting);
// Kernels of other devices take other scratch memory, but a plan's text says nothing of devices.
void forget_devices(partitioner::Plan& plan);

}  // namespace kerf::apps
