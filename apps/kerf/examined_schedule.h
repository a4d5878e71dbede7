// A schedule as `kerf schedule` looks at it: taken by name, from a file or by a search, proved on
// the graph of its stages or on a plan, and simulated.
#pragma once

#include <optional>
#include <string>

#include "apps/kerf/schedule_flags.h"
#include "apps/report/schedule_record.h"
#include "schedmp/torch_csv.h"

namespace kerf::apps {

struct ExaminedSchedule {
  ScheduleRecord record;
  std::optional<schedmp::TorchCsv> torch;    // what the file has, if it is PyTorch's
  std::optional<schedmp::Schedule> written;  // with its transfers, if it names them

  // What is proved and simulated.
  const schedmp::Schedule& played() const { return written ? *written : record.schedule; }
  // Endless, or the one that there is.
  const schedmp::Schedule& all() const {
    return record.endless ? *record.endless : record.schedule;
  }
  bool is_too_long() const;  // to be proved
};

// By itself: one worker for each stage, or as the schedule places them, unless its file says
// otherwise. All throw Error{kUsage} at the flag or the file.
ExaminedSchedule examine_chain(const ScheduleFlags& flags);
// On a model's cut, or a plan.
ExaminedSchedule examine_on_plan(const ScheduleFlags& flags);
// Either of them, and its times.
ExaminedSchedule examine(const ScheduleFlags& flags);

// Under the cap of --in-flight and with what --recompute says, where they were given.
schedmp::Schedule as_asked(const ScheduleFlags& flags, schedmp::Schedule schedule,
                           const partitioner::StageGraph& graph);
// Of a schedule that goes on for ever, as much as shows how late updates are.
void show_periods(const ScheduleFlags& flags, ExaminedSchedule& examined);
// Keeps what was found, beside what 1F1B takes.
void keep_found(schedmp::FoundSchedule found, ScheduleRecord& record);

}  // namespace kerf::apps
