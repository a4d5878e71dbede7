// One run of the training program, for train and eval: workers, loop, progress, and what came out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/kerf/crew_flags.h"
#include "apps/kerf/plan_flags.h"
#include "apps/report/progress.h"
#include "schedmp/scheduler.h"
#include "schedmp/training/training.h"

namespace kerf::apps {

struct Outcome {
  std::unique_ptr<schedmp::Training> training;  // its records
  std::vector<runtime::WorkerInfo> crew;
  schedmp::LoopReport loop;
  runtime::ControlCounters control;  // messages between scheduler and workers
  double images_per_second = 0;      // of training, start-up and tests left out; 0: unknown
  double median_step_seconds = 0;    // likewise
};

// Throws what ended the run. Workers are gone when it returns or throws.
Outcome run_training(const Planned& planned, const schedmp::Schedule& schedule,
                     const schedmp::TrainingOptions& options, const CrewFlags& flags);

}  // namespace kerf::apps
