#include "apps/kerf/run_training.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "apps/programs.h"
#include "apps/report/terminal.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

// Rounds under way: enough that no worker waits for the scheduler.
constexpr int kDepth = 4;

void write_progress(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

Progress::Options progress_options() {
  Progress::Options options;
  options.terminal = takes_escapes(STDERR_FILENO);
  options.width = [] { return terminal_width(STDERR_FILENO); };
  options.write = write_progress;
  return options;
}

// What a worker computes for one micro-batch, at most: an action is a part of it.
double longest_action_seconds(const partitioner::Plan& plan) {
  double most = 0;
  for (const auto& worker : plan.workers) most = std::max(most, worker.seconds);
  return most / plan.micro_batches;
}

}  // namespace

Outcome run_training(const Planned& planned, const schedmp::Schedule& schedule,
                     const schedmp::TrainingOptions& options, const CrewFlags& flags) {
  Outcome outcome;
  std::unique_ptr<Progress> progress;
  schedmp::TrainingObserver observer;
  observer.step = [&](const schedmp::StepRecord& record) { progress->step(record); };
  observer.evaluation = [&](const schedmp::EvaluationRecord& record) {
    progress->evaluation(record);
  };
  outcome.training = std::make_unique<schedmp::Training>(training_factories(), planned.model,
                                                         planned.plan, schedule, options, observer);
  const auto& peaks = outcome.training->verdict().peak_bytes;
  check_host_memory(flags, std::accumulate(peaks.begin(), peaks.end(), 0.0),
                    "use more --micro-batches, a smaller --batch or a smaller model");
  Progress::Options how = progress_options();
  how.total_steps = outcome.training->total_steps();
  how.epochs = options.epochs;
  progress = std::make_unique<Progress>(std::move(how));

  const Interrupts interrupts;
  const auto crew = assemble_crew(flags, planned.plan.workers_bound(), interrupts,
                                  longest_action_seconds(planned.plan));
  outcome.crew = crew->workers();
  try {
    outcome.loop = schedmp::run(*outcome.training, *crew, {.depth = kDepth, .batch = 1});
  } catch (const Error&) {
    progress->abandon();
    throw;
  }
  progress->finish();
  outcome.crew = crew->workers();
  outcome.control = crew->counters();
  crew->stop();
  outcome.images_per_second = progress->images_per_second();
  outcome.median_step_seconds = progress->median_step_seconds();
  return outcome;
}

}  // namespace kerf::apps
