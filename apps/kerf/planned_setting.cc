#include "apps/kerf/planned_setting.h"

#include <algorithm>

#include "apps/main/flag_values.h"
#include "ops/optimizer.h"
#include "runtime/channel.h"
#include "schedmp/training/proof.h"

namespace kerf::apps {

namespace {

partitioner::SlotPlace slot_place_over(const std::string& transport) {
  return schedmp::slot_place_of(runtime::parse_transport(transport));
}

}  // namespace

void check_ranges(const PlanFlags& flags) {
  check_range(flags.workers, "--workers", kMostWorkers);  // a schedule without a plan has more
  const double momentum = flags.momentum.value_or(0);
  require(momentum >= 0 && momentum < 1, "--momentum", format("{} is not within [0, 1)", momentum));
  require(momentum == 0 || flags.optimizer.value_or("sgd") == "sgd", "--momentum",
          format("it is of sgd, not of {}", flags.optimizer.value_or("")));
  if (flags.memory) require(*flags.memory >= 1, "--memory", "it must be positive");
}

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
          format("it is of sgd, not of {}", planned.optimizer));
}

int states_of(const Planned& planned) {
  return ops::Optimizer({.name = planned.optimizer, .momentum = planned.momentum}).states();
}

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

partitioner::Setting run_setting(const PlanFlags& flags, partitioner::Setting setting) {
  setting.slot_place = slot_place_over(flags.transport.value_or(kPlannedTransport));
  return setting;
}

void forget_devices(partitioner::Plan& plan) {
  if (plan.request) plan.request->setting.devices.clear();
}

}  // namespace kerf::apps
