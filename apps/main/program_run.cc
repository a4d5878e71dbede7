#include "apps/main/program_run.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/report/history_picture.h"
#include "apps/report/json_fields.h"
#include "runtime/file.h"
#include "runtime/trace.h"

namespace kerf::apps {

namespace {

constexpr double kSnapshotSeconds = 60;

// A value, and of a file what it is like.
std::string told_of(const std::string& value) {
  std::error_code none;
  const auto size = std::filesystem::file_size(value, none);
  if (none) return value;
  const auto changed = std::filesystem::last_write_time(value, none).time_since_epoch();
  return format("{} ({} bytes, changed at {})", value, size, changed.count());
}

void tell_note(const std::string& what) { tell_notes({what}); }

// As long as it lives, the history tells this observer.
class Observed {
 public:
  Observed(History& history, History::Observer observer) : history_(history) {
    history_.observe(std::move(observer));
  }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;
  ~Observed() { history_.observe({}); }

 private:
  History& history_;
};

}  // namespace

void ProgramRun::add_flags(CLI::App& command, const std::string& divided) {
  command_ = &command;
  command
      .add_option("--workers", workers_, format("{} are divided over them (default 2)", divided))
      ->check(whole_number<int>(1, kMostWorkers))
      ->type_name("N");
  command.add_option("--max-seconds", most_seconds_, "Stop after so long; 0: never")
      ->capture_default_str();
  command.add_option("--picture", picture_, "Draw here how it went over time")
      ->type_name("FILE.svg");
  command.add_option("--trace", trace_, "Write here what everybody did when, for Perfetto")
      ->type_name("FILE.json");
  add_snapshot_flags(command);
  add_crew_flags(command, crew_flags_);
  add_buddy_flag(command, crew_flags_, "round");
  add_json_flag(command, json_);
}

void ProgramRun::add_snapshot_flags(CLI::App& command) {
  CLI::Option* folder = command.add_option("--snapshot", snapshot_,
                                           "Keep a snapshot here, from which --resume goes on");
  folder->type_name("FOLDER");
  command
      .add_option("--snapshot-rounds", snapshot_rounds_,
                  "One before each round that this divides: the same whenever the run is repeated")
      ->check(whole_number<int64_t>(1))
      ->type_name("N")
      ->needs(folder);
  command
      .add_option("--snapshot-seconds", snapshot_seconds_,
                  format("One so long after the one before (default {}, or by rounds alone where "
                         "--snapshot-rounds is given)",
                         kSnapshotSeconds))
      ->needs(folder);
  add_keep_workers_flag(command, keep_workers_)->needs(folder);
  command
      .add_option("--resume", resume_,
                  "Go on from the snapshot in this folder, of a run of the same data, flags and "
                  "workers")
      ->type_name("FOLDER");
}

schedmp::SnapshotOptions ProgramRun::snapshots() {
  if (keep_workers_)
    memory_ = std::make_shared<schedmp::KeptMemory>(std::chrono::seconds(*keep_workers_), snapshot_,
                                                    tell_note, crew_flags_.buddy_every.value_or(0));
  return {.folder = snapshot_,
          .every = snapshot_rounds_.value_or(0),
          .every_seconds = snapshot_seconds_.value_or(snapshot_rounds_ ? 0 : kSnapshotSeconds),
          .memory = memory_,
          .resume = resume_,
          .left = left_,
          .run = told(),
          .tell = tell_note};
}

// Flags as they were given, all but those of how the run is reached, how long it may take and what
// is shown of it; of files how large they are and when they were changed; and the executable.
schedmp::RunTold ProgramRun::told() const {
  const std::set<std::string> others = {
      "--workers",
      "--transport",
      "--device",
      "--listen",
      "--keys",
      "--encrypt-data",
      "--spares",
      "--no-restart",
      "--hosts",
      "--launcher",
      "--json",
      "--picture",
      "--trace",
      "--out",
      "--help",
      "--max-seconds",
      "--snapshot",
      "--resume",
      "--snapshot-seconds",
      "--snapshot-rounds",
      "--keep-workers",
      "--buddy-every",
  };
  schedmp::RunTold told{{"executable", schedmp::identity().build}};
  for (const CLI::Option* option : command_->get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || others.contains(name)) continue;
    told[name] = told_of(format("{}", fmt::join(option->results(), " ")));
  }
  return told;
}

void ProgramRun::check() {
  require(most_seconds_ >= 0, "--max-seconds", format("{} is not 0 or more", most_seconds_));
  require(!snapshot_seconds_ || *snapshot_seconds_ > 0, "--snapshot-seconds", "it is not above 0");
  check_buddy_flag(crew_flags_, keep_workers_.has_value());
  require(resume_.empty() || std::filesystem::is_directory(resume_), "--resume",
          format("there is no folder {}", resume_));
  require(trace_.empty() || can_hold_file(trace_), "--trace",
          format("there is no folder for {}", trace_));
  require(picture_.empty() || can_hold_file(picture_), "--picture",
          format("there is no folder for {}", picture_));
  if (!resume_.empty()) left_ = schedmp::left_memory(std::filesystem::absolute(resume_), tell_note);
}

int ProgramRun::workers(int64_t parts, const std::string& what) const {
  const int64_t most = std::min<int64_t>(kMostWorkers, parts);
  const int64_t given = workers_.value_or(std::clamp<int64_t>(most, 1, 2));
  require(given >= 1 && given <= most, "--workers",
          format("{} is not within 1 and {}: {} are divided over them", given, most, what));
  return static_cast<int>(given);
}

schedmp::LoopReport ProgramRun::drive(schedmp::EncodedProgram& program, int workers,
                                      const Shown& shown, schedmp::ProgramTrace& trace) {
  require(
      !crew_flags_.buddy_every || program.keeps_state(), "--buddy-every",
      format("the halves of {} keep no state (schedmp/state.h): behind a loss all is done again "
             "from the first round; leave it out",
             program.name()));
  HistoryProgress progress(progress_on_stderr(), shown.history, shown.part);
  const Observed observed(shown.history, [&](const HistoryPoint& point) { progress.tell(point); });
  const Driven driven =
      apps::drive(program, crew_flags_, {.workers = workers, .programs = programs_}, progress,
                  {.snapshots = snapshots()});
  apart_ = apart_of(driven);
  if (trace_.empty()) return driven.loop;
  traced_ = trace.take(driven.crew);
  std::vector<runtime::Span>& of_scheduler = traced_.front().spans;
  of_scheduler.insert(of_scheduler.end(), driven.loop.spans.begin(), driven.loop.spans.end());
  tell_lost_spans(trace.lost() + driven.loop.spans_lost);
  return driven.loop;
}

void ProgramRun::answer(const History& history, const std::string& title, const Json& members,
                        const std::string& line) {
  if (!trace_.empty()) runtime::write_chrome_trace(trace_, traced_);
  if (!picture_.empty()) runtime::write_file_atomic(picture_, draw_history(history, title));
  answer_of_run(
      json_, crew_flags_.encrypt_data,
      [&] {
        Json all = members;
        const Json apart = to_json(apart_);
        for (const auto& [name, value] : apart.items()) all[name] = value;
        all["history"] = history.json();
        return all;
      },
      [&](bool colour) {
        const std::string text = history.table() + "\n" + line + "\n";
        // Every run of some length commits: of that alone people are told nothing.
        const size_t expected = apart_.commits.number > 0 ? 1 : 0;
        return rows_of(apart_).size() > expected ? text + apart_text(apart_, colour) : text;
      });
  if (apart_.failed_checkpoints > 0)
    tell_notes({format("{} could not be written", plural(apart_.failed_checkpoints, "snapshot"))});
  if (memory_) memory_->end();
  if (left_) left_->remove();
  if (!snapshot_.empty()) schedmp::forget_gone_memory(snapshot_);
}

}  // namespace kerf::apps
