#include "apps/kerf/save_flags.h"

#include <charconv>
#include <limits>

#include "apps/main/answer.h"
#include "apps/main/crew_flags.h"
#include "apps/main/flag_values.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

double seconds_of(std::string_view unit) {
  if (unit == "s") return 1;
  if (unit == "m") return 60;
  return unit == "h" ? 3600 : 0;
}

}  // namespace

fs::path checkpoints_of(const fs::path& folder) {
  const fs::path within = folder / "checkpoints";
  return fs::is_directory(within) && !schedmp::has_checkpoints(folder) ? within : folder;
}

SaveEvery parse_save_every(const std::string& text) {
  const char* const end = text.data() + text.size();
  int64_t number = 0;
  const auto [unit, fault] = std::from_chars(text.data(), end, number);
  const double seconds = seconds_of({unit, end});
  if (fault != std::errc() || number < 0 || (unit != end && seconds == 0))
    throw Error(
        ErrorCode::kUsage,
        format("\"{}\" is none of 500 (steps), 90s, 10m, 2h, and 0 for no checkpoints", text));
  if (unit == end) return {.steps = number};
  return {.seconds = static_cast<double>(number) * seconds};
}

void SaveFlags::check() const {
  require(resume.empty() || fs::is_directory(resume), "--resume",
          format("there is no folder {}", resume));
}

SaveEvery SaveFlags::when() const {
  return every.empty() ? SaveEvery{.seconds = kSaveSeconds} : parse_save_every(every);
}

CheckpointFolder SaveFlags::folder(const fs::path& out) const {
  const SaveEvery at = when();
  if (at.steps == 0 && at.seconds == 0 && !keep_workers) return {};
  const bool asked = !every.empty() || keep_workers;
  const fs::path folder = out / "checkpoints";
  const auto lock = asked ? schedmp::expect_lock(folder) : schedmp::lock_folder(folder);
  const bool any = schedmp::has_checkpoints(folder) || schedmp::has_left_memory(folder);
  std::error_code absent;
  const bool own = !resume.empty() && fs::equivalent(folder, checkpoints_of(resume), absent);
  if (lock != nullptr && (asked || own || !any))
    return {folder, lock, !every.empty() || (any && !go_at_end)};
  tell_notes({format("{} {}: this one writes none", folder.string(),
                     lock == nullptr ? "is where another run writes its checkpoints"
                                     : "has checkpoints of another run")});
  return {};
}

std::shared_ptr<schedmp::LeftMemory> SaveFlags::left() const {
  if (resume.empty()) return nullptr;
  return schedmp::left_memory(fs::absolute(checkpoints_of(resume)),
                              [](const std::string& what) { tell_notes({what}); });
}

schedmp::SnapshotOptions SaveFlags::options(const CheckpointFolder& folder,
                                            int64_t buddy_every) const {
  const SaveEvery at = when();
  const bool saves = at.steps > 0 || at.seconds > 0;
  const bool asked = !every.empty() && saves;
  schedmp::SnapshotOptions options{.every = at.steps,
                                   .every_seconds = at.seconds,
                                   .worth_seconds = asked ? 0 : kWorthSeconds,
                                   .keep = keep,
                                   .tell = [](const std::string& what) { tell_notes({what}); }};
  options.folder = folder.path();
  options.lock = folder.lock();
  if (!saves) options.worth_seconds = std::numeric_limits<double>::infinity();
  if (keep_workers)
    options.memory = std::make_shared<schedmp::KeptMemory>(
        std::chrono::seconds(*keep_workers), folder.path(), options.tell, buddy_every);
  if (!resume.empty()) options.resume = checkpoints_of(resume);
  return options;
}

void add_save_flags(CLI::App& command, SaveFlags& flags) {
  command
      .add_option("--save-every", flags.every,
                  "Write a checkpoint to DIR/checkpoints, of --out, every so many steps (500) or "
                  "after so long (90s, 10m, 2h); they stay. 0: none (default 10m, until the run "
                  "ends well)")
      ->check(parsed_by([](const std::string& text) { parse_save_every(text); }))
      ->type_name("WHEN");
  command.add_option("--keep", flags.keep, "Of a run's checkpoints, the newest")
      ->check(whole_number<int64_t>(1))
      ->type_name("K")
      ->capture_default_str();
  command.add_flag("--checkpoints-go", flags.go_at_end)->group("");  // nobody gives it
  command
      .add_option("--resume", flags.resume,
                  "Go on from the newest checkpoint in this folder, with the flags of its run; of "
                  "workers and the plan others may be given")
      ->type_name("DIR");
  add_keep_workers_flag(command, flags.keep_workers);
}

}  // namespace kerf::apps
