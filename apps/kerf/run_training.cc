#include "apps/kerf/run_training.h"

#include <unistd.h>

#include <cstdio>

#include "apps/kerf/interrupts.h"
#include "apps/programs.h"
#include "apps/report/terminal.h"
#include "runtime/error.h"
#include "runtime/process.h"

namespace kerf::apps {

namespace {

// Rounds under way: enough that no worker waits for the scheduler.
constexpr int kDepth = 4;
constexpr int kMostThreads = 1024;

void write_progress(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

Progress::Options progress_options() {
  Progress::Options options;
  options.terminal = is_terminal(STDERR_FILENO);
  options.width = [] { return terminal_width(STDERR_FILENO); };
  options.write = write_progress;
  return options;
}

runtime::CrewOptions crew_options(const CrewFlags& flags, int workers,
                                  const std::shared_ptr<runtime::Interrupt>& interrupt) {
  if (flags.threads < 1 || flags.threads > kMostThreads)
    throw Error(ErrorCode::kUsage, format("{} is not within 1 and {}", flags.threads, kMostThreads),
                "--threads");
  runtime::CrewOptions options;
  options.workers = workers;
  options.transport = runtime::parse_transport(flags.transport);
  options.threads = flags.threads;
  options.device = flags.device;
  options.listen = flags.listen;
  options.worker_command = {runtime::program_path(), "worker"};
  options.identity = schedmp::identity();
  options.handlers = schedmp::handlers_of(program_factories());
  options.interrupt = interrupt;
  // Somebody starts the workers by hand.
  if (!flags.listen.empty()) options.assemble_timeout = std::chrono::hours(1);
  return options;
}

std::unique_ptr<runtime::Crew> assemble(const runtime::CrewOptions& options) {
  return runtime::Crew::assemble(options, [&](int here) {
    if (options.listen.empty()) return;
    write_progress(here == 0 ? format("listening; start {} times: kerf worker --connect {}\n",
                                      options.workers, options.listen)
                             : format("{} of {} workers are here\n", here, options.workers));
  });
}

}  // namespace

void add_crew_flags(CLI::App& command, CrewFlags& flags) {
  command.add_option("--transport", flags.transport, "shm, ipc, tcp or inproc")
      ->capture_default_str();
  command.add_option("--threads", flags.threads, "Per worker")->capture_default_str();
  command.add_option("--device", flags.device, "Of local workers: cpu or cuda:N")
      ->capture_default_str();
  command
      .add_option("--listen", flags.listen,
                  "Wait here for `kerf worker --connect` instead of starting local workers")
      ->type_name("tcp://127.0.0.1:PORT");
}

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
  Progress::Options how = progress_options();
  how.total_steps = outcome.training->total_steps();
  how.epochs = options.epochs;
  progress = std::make_unique<Progress>(std::move(how));

  const Interrupts interrupts;
  // Starts processes, so it comes before anything that has ZeroMQ in it.
  const auto crew = assemble(crew_options(flags, planned.plan.parts(), interrupts.request()));
  outcome.crew = crew->workers();
  try {
    outcome.loop = schedmp::run(*outcome.training, *crew, {.depth = kDepth, .batch = 1});
  } catch (const Error&) {
    progress->finish();
    throw;
  }
  progress->finish();
  outcome.crew = crew->workers();
  crew->stop();
  outcome.images_per_second = progress->images_per_second();
  outcome.median_step_seconds = progress->median_step_seconds();
  return outcome;
}

}  // namespace kerf::apps
