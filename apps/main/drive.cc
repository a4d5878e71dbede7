#include "apps/main/drive.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "apps/main/answer.h"
#include "apps/main/launched.h"
#include "apps/main/own_worker.h"
#include "apps/main/remote_workers.h"
#include "apps/report/terminal.h"
#include "runtime/error.h"
#include "runtime/process.h"
#include "runtime/time.h"

namespace kerf::apps {

Progress::Options progress_on_stderr() {
  Progress::Options options;
  options.terminal = takes_escapes(STDERR_FILENO);
  options.width = [] { return terminal_width(STDERR_FILENO); };
  options.write = [](const std::string& text) {
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  };
  return options;
}

namespace {

// Those that --hosts names, which are started once the run listens; null without it.
std::unique_ptr<RemoteWorkers> remote_workers(const CrewFlags& flags, const CrewNeeds& needs,
                                              const Interrupts& interrupts) {
  if (flags.hosts.empty()) return nullptr;
  RemoteOptions options;
  if (const char* ssh = std::getenv("KERF_SSH"); ssh != nullptr && *ssh != 0) options.ssh = ssh;
  options.kerf =
      std::filesystem::path(runtime::program_path()).replace_filename(runtime::program_name());
  if (!flags.keys.empty()) options.keys = std::filesystem::absolute(flags.keys);
  options.workers = needs.workers;
  options.others_may_come = flags.spares > 0;
  return std::make_unique<RemoteWorkers>(read_hosts(flags.hosts, needs.workers, flags.spares),
                                         options, interrupts.request());
}

// Of a launcher's first task; null where it keeps none.
std::unique_ptr<OwnWorker> own_worker(const CrewFlags& flags, const Interrupts& interrupts) {
  if (flags.own_worker.empty()) return nullptr;
  return std::make_unique<OwnWorker>(flags.own_worker, flags.spares > 0, interrupts.request());
}

// Workers that this process starts beside those of the crew, and looks after. Each may be null.
struct Started {
  OwnWorker* own = nullptr;
  RemoteWorkers* remote = nullptr;
};

runtime::Crew::Waiting which_tasks_are_here(const CrewFlags& flags, const CrewNeeds& needs,
                                            OwnWorker* own, bool again) {
  return [tell = tell_who_is_here(flags, needs, again), workers = needs.workers, own, again,
          others = needs.workers + flags.spares - (own == nullptr ? 0 : 1)](
             int here, const std::string& address) mutable {
    if (own != nullptr && here == workers) own->all_are_here();
    if (here > 0) return tell(here, address);
    if (again)
      tell_line("the task of a lost worker starts another");
    else
      tell_line(format("listening at {} for {}", address, plural(others, "other task")));
    if (own != nullptr) own->awaited(again);
    again = true;
  };
}

// Behind a loss (`again`, or the first time was before) those whose process is gone are started
// anew.
runtime::Crew::Waiting who_is_here(const CrewFlags& flags, const CrewNeeds& needs,
                                   const Started& started, bool again) {
  if (flags.launched) return which_tasks_are_here(flags, needs, started.own, again);
  if (started.remote == nullptr) return tell_who_is_here(flags, needs, again);
  return [tell = tell_who_is_here(flags, needs, again), remote = started.remote, again](
             int here, const std::string& address) mutable {
    remote->are_here(here);
    if (here > 0) return tell(here, address);
    tell_line(std::exchange(again, true) ? "whoever is gone is started again over ssh"
                                         : "starting workers over ssh");
    remote->start(address);
  };
}

schedmp::RestartOptions restarts(const schedmp::RestartOptions& of_program, const CrewFlags& flags,
                                 const CrewNeeds& needs, const Started& started,
                                 ProgressBar& progress) {
  schedmp::RestartOptions options;
  options.keeps = of_program.keeps;
  options.counts_steps = of_program.counts_steps;
  options.allowed = !flags.no_restart;
  options.commit_steps = flags.buddy_every.value_or(0);
  options.waiting = who_is_here(flags, needs, started, true);
  options.tell = [](const std::string& what) { tell_notes({what}); };
  options.lost = [&progress, counts_steps = options.counts_steps](
                     const Error& loss, const schedmp::RoundAndSteps& place) {
    progress.abandon();
    // The lines behind the first tell what the others did.
    tell_line(printable(first_line(loss.message())));
    tell_line(format("all workers begin again {}", schedmp::beginning_at(place, counts_steps)));
  };
  return options;
}

// Every result is in: who is lost while the workers leave takes nothing along but what it had yet
// to tell of its channels.
void let_leave(runtime::Crew& crew, const CrewFlags& flags) {
  try {
    crew.stop();
  } catch (const Error& error) {
    if (flags.no_restart || error.code() != ErrorCode::kLost) throw;
    tell_notes({format("{}; every result was in before", first_line(error.message()))});
  }
}

// Of a launcher's run, which may be over before the last of its tasks has begun. Who had come to a
// run that was handed over to this one is not known; for the own worker, which somebody took the
// place of, nobody waits.
void await_tasks(runtime::Crew& crew, const CrewFlags& flags, const CrewNeeds& needs,
                 bool own_worker_ended) {
  if (flags.launched && flags.returning.empty())
    crew.await(needs.workers + flags.spares - (own_worker_ended ? 1 : 0));
}

bool come_by_themselves(const CrewFlags& flags, const RemoteWorkers* remote) {
  return !flags.listen.empty() && remote == nullptr;
}

// Those of ssh are started again with the run. Nothing is lost with who does not leave: what it had
// is in the snapshot, and it is ended with the crew.
std::vector<runtime::Returning> leave_crew(runtime::Crew& crew, const CrewFlags& flags,
                                           RemoteWorkers* remote) {
  if (come_by_themselves(flags, remote)) return crew.hand_over();
  try {
    crew.stop();
  } catch (const Error& error) {
    // One that was asked for shows behind this (NextProcess).
    if (error.code() != ErrorCode::kInterrupted)
      tell_notes({format("{}; the run goes on without it", first_line(error.message()))});
  }
  if (remote != nullptr) remote->let_leave();
  return {};
}

std::unique_ptr<runtime::Crew> crew_that_is_here(const CrewFlags& flags, const CrewNeeds& needs,
                                                 const Interrupts& interrupts,
                                                 const Started& started) {
  const int64_t begin_ns = runtime::now_ns();
  auto crew = assemble_crew(flags, needs, interrupts, who_is_here(flags, needs, started, false));
  const double waited = static_cast<double>(runtime::now_ns() - begin_ns) * 1e-9;
  if (needs.are_here)
    needs.are_here(crew->workers(), come_by_themselves(flags, started.remote) ? waited : 0);
  return crew;
}

Driven drive_crew(schedmp::EncodedProgram& program, const CrewFlags& flags, const CrewNeeds& needs,
                  ProgressBar& progress, const schedmp::LoopOptions& options,
                  const Interrupts& interrupts, const Started& started) {
  Driven driven;
  schedmp::LoopOptions full = options;
  full.restarts = restarts(options.restarts, flags, needs, started, progress);
  full.interrupt = interrupts.request();
  const auto crew = crew_that_is_here(flags, needs, interrupts, started);
  try {
    driven.loop = schedmp::run(program, *crew, full);
  } catch (const schedmp::Left& left) {
    progress.abandon();
    NextProcess(left, interrupts.request()).end_if_asked(left.message());
    throw GoesOnElsewhere(left, interrupts.request(), leave_crew(*crew, flags, started.remote));
  } catch (const Error& error) {
    progress.abandon();
    const int left = crew->here();
    if (!flags.shrink || error.code() != ErrorCode::kTimeout || left == 0 ||
        left == needs.workers || interrupts.request()->asked())
      throw;
    crew->hand_over();
    throw FewerWorkers(error, interrupts.request(), left);
  } catch (...) {
    progress.abandon();
    throw;
  }
  progress.finish();
  driven.control = crew->counters();
  const bool own_worker_ended = started.own != nullptr && started.own->has_ended();
  let_leave(*crew, flags);
  if (started.remote != nullptr) started.remote->let_leave();
  driven.crew = crew->workers();  // with what they say when they leave
  await_tasks(*crew, flags, needs, own_worker_ended);
  return driven;
}

// Whoever ends a run has no use for what it keeps in memory against its death, but where the
// checkpoint that was to come first did not.
void end_memory(const schedmp::SnapshotOptions& snapshots) {
  if (!snapshots.memory) return;
  if (snapshots.every > 0 || snapshots.every_seconds > 0)
    snapshots.memory->end_if_saved(snapshots.folder);
  else
    snapshots.memory->end();
}

}  // namespace

std::vector<RecoveryRecord> recoveries_of(const schedmp::LoopReport& loop) {
  std::vector<RecoveryRecord> recoveries;
  for (const schedmp::Recovery& each : loop.recoveries)
    recoveries.push_back({.worker = each.worker,
                          .why = each.why,
                          .round = each.round,
                          .reached_round = each.reached,
                          .step = each.step,
                          .discarded_tasks = each.answered,
                          .unanswered_tasks = each.unanswered,
                          .seconds = static_cast<double>(each.end_ns - each.begin_ns) * 1e-9});
  return recoveries;
}

CountedApart apart_of(const Driven& driven) {
  const schedmp::LoopReport& loop = driven.loop;
  const schedmp::SnapshotCounts& saved = loop.snapshots;
  return {.recoveries = recoveries_of(loop),
          .restarts = loop.restarts,
          .repeated_tasks = loop.repeated_tasks,
          .commits = {loop.commits.taken, loop.commits.bytes, loop.commits.seconds},
          .checkpoints = {saved.taken, saved.bytes, saved.seconds},
          .in_memory = {saved.in_memory, saved.in_memory_bytes, saved.in_memory_seconds},
          .failed_checkpoints = saved.failed,
          .fenced_messages = driven.control.fenced};
}

void tell_lost_spans(int64_t lost) {
  if (lost > 0)
    tell_notes({format("the trace lacks {}, for which it had no room", plural(lost, "span"))});
}

void NextProcess::end_if_asked(const std::string& way_on) const {
  if (!interrupt_->asked()) return;
  throw Error(ErrorCode::kInterrupted,
              way_on.empty() ? "interrupted" : format("interrupted; {}", way_on));
}

Driven drive(schedmp::EncodedProgram& program, const CrewFlags& given, const CrewNeeds& needs,
             ProgressBar& progress, const schedmp::LoopOptions& options) {
  const CrewFlags flags = as_launched(given, needs.workers);
  const Interrupts interrupts;
  const auto own = own_worker(flags, interrupts);  // before there is any ZeroMQ
  const auto remote = remote_workers(flags, needs, interrupts);
  try {
    return drive_crew(program, flags, needs, progress, options, interrupts,
                      {.own = own.get(), .remote = remote.get()});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) throw;
    // A worker that did not come to be interrupts the wait for it.
    const auto failure = remote ? remote->failure() : own ? own->failure() : std::nullopt;
    const std::string_view said = error.message();  // and how to go on, where there is a way
    const auto way_on = said.starts_with("interrupted;") ? said.substr(said.find(';')) : "";
    if (failure)
      throw Error(failure->code(), failure->message() + std::string(way_on), failure->where());
    end_memory(options.snapshots);
    throw;
  }
}

}  // namespace kerf::apps
