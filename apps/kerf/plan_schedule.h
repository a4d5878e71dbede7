// The schedule of a plan: a built-in one by its name, or one from a file, as the flags say or the
// plan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/kerf/plan_flags.h"
#include "apps/kerf/planned.h"
#include "schedmp/schedules.h"
#include "schedmp/torch_csv.h"

namespace kerf::apps {

inline constexpr size_t kMaxText = size_t{64} << 20;    // of a schedule's file, or one of shares
inline constexpr size_t kMostPlan = size_t{256} << 20;  // of a plan's, written or read

bool is_built_in(const std::string& schedule);
// A built-in schedule or one from a file, for a step of so many micro-batches. Throws Error{kUsage}
// where it is neither, and where --workers or --micro-batches contradict a file's.
schedmp::Schedule find_schedule(const PlanFlags& flags, const std::string& name,
                                const schedmp::Pipeline& pipeline, int micro_batches);
// Where the flags name a file: what a step of it is.
std::optional<schedmp::Schedule> schedule_in_file(const PlanFlags& flags);
// What a file has: a schedule, which may be endless, and where it is PyTorch's what PyTorch says.
// Throws as above.
struct ScheduleFile {
  schedmp::Schedule schedule;
  std::optional<schedmp::TorchCsv> torch;
};
ScheduleFile read_schedule_file(const PlanFlags& flags, const std::string& file);

// What a schedule of that name keeps in flight; one from a file holds what its rows say.
std::unique_ptr<partitioner::InFlight> in_flight_of(const PlanFlags& flags,
                                                    const std::string& schedule);
// Null for a plan's file that is not there, which is missed once it is to run
// (require_schedule_of).
std::unique_ptr<partitioner::InFlight> in_flight_of_plan(const PlanFlags& flags,
                                                         const std::string& schedule);

// Of a plan that was read: throws Error{kUsage} that names the plan's file where the schedule that
// it names is neither built in nor a file.
void require_schedule_of(const Planned& planned);

// The schedule that the flags name, or else the plan, for the plan's stages, as it runs (steps.h).
struct PlanSchedule {
  schedmp::Schedule schedule;
  std::optional<std::string> drains;  // of an endless one: why each step drains, where it does
};
PlanSchedule schedule_of(const PlanFlags& flags, const Planned& planned);
// That, after a look at its text: throws Error{kUsage} that names the file where one from a file is
// out of order or is for other workers, groups or micro-batches than the plan's.
PlanSchedule fitting_schedule_of(const PlanFlags& flags, const Planned& planned);
// That it drains, told on the standard error output.
void note_drains(const PlanSchedule& found);

}  // namespace kerf::apps
