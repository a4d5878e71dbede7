#include "schedmp/snapshots.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <system_error>
#include <utility>

#include "runtime/error.h"
#include "runtime/file.h"
#include "schedmp/checkpoint_owner.h"
#include "schedmp/snapshot_part.h"

namespace kerf::schedmp {

namespace {

namespace fs = std::filesystem;

// What versions before checkpoints had in their folders.
constexpr const char* kOlderManifest = "snapshot.json";

double seconds_since(runtime::Clock::time_point then) {
  return std::chrono::duration<double>(runtime::Clock::now() - then).count();
}

// What killed runs had begun, of which no byte is gone on from: a disk that it fills would have no
// room for the next. No folder: none.
void remove_unfinished(const fs::path& folder) {
  for (const auto& [number, path] : checkpoints_in(folder))
    if (!has_manifest(path)) remove_checkpoint(path);
}

// Takes away what a run left in the place of this one; why it cannot be written there, or nothing.
std::string clear_place(const fs::path& path) {
  const CheckpointOwner owner = owner_of(path);
  if (owner == CheckpointOwner::kUnknown ||
      (owner == CheckpointOwner::kOthers && !has_room_beside(path)))
    return kerf::format(
        "{}: what is there is not of Kerf, or cannot be looked at: it has to be "
        "moved away",
        path.string());
  remove_checkpoint(path);
  if (!has_manifest(path)) return {};
  return kerf::format("{}: the one that is there cannot be removed", path.string());
}

// Of data without tests a blank is left at the end.
std::string_view shown(std::string_view value) {
  return value.substr(0, value.find_last_not_of(' ') + 1);
}

// How this run is another than that of a checkpoint: all flags, and of the rest, which follows from
// some flag or other, the first.
std::vector<std::string> differences_of(const RunTold& before, const RunTold& now) {
  std::vector<std::string> differences;
  const auto add = [&](const std::string& name, const std::string& text) {
    if (name.starts_with("--") || differences.empty()) differences.push_back(text);
  };
  for (const auto& [name, value] : before)
    if (!now.contains(name))
      add(name, kerf::format("{} {}, and this one has none", name, shown(value)));
  for (const auto& [name, value] : now)
    if (!before.contains(name))
      add(name, kerf::format("no {}, and this one has {}", name, shown(value)));
  for (const auto& [name, value] : now)
    if (const auto other = before.find(name); other != before.end() && other->second != value)
      add(name,
          kerf::format("{} {}, and this one has {}", name, shown(other->second), shown(value)));
  return differences;
}

// What the system said, without the file that it said it of: "No space left on device".
std::string reason_of(const std::string& failure) {
  const size_t end = failure.rfind(": ");
  return end == std::string::npos ? failure : failure.substr(end + 2);
}

}  // namespace

Snapshots::Snapshots(SnapshotOptions options, EncodedProgram& program, runtime::Crew& crew,
                     const std::vector<std::string>& jobs)
    : options_(std::move(options)), program_(program), crew_(crew) {
  std::string all;
  for (const std::string& job : jobs) all += kerf::format("{} {}", job.size(), job);
  job_ = runtime::crc32c(all);
  if (options_.folder.empty()) return;
  options_.folder = fs::absolute(options_.folder);
  expect_folder();
  crew_.allow(options_.folder, runtime::StoreAccess::kWrite);
  if (options_.memory) crew_.allow(options_.memory->folder(), runtime::StoreAccess::kWrite);
  static_cast<void>(program_.snapshot());  // who keeps none says so before the run, not within
}

void Snapshots::expect_folder() {
  if (options_.lock == nullptr) options_.lock = expect_lock(options_.folder);
  std::error_code failed;
  const bool own =
      !options_.resume.empty() && fs::equivalent(options_.folder, options_.resume, failed);
  if (!own && (has_checkpoints(options_.folder) || has_left_memory(options_.folder)))
    throw Error(ErrorCode::kUsage,
                "it has checkpoints of another run: go on with those, or take another folder",
                options_.folder.string());
}

void Snapshots::tell(const std::string& what) const {
  if (options_.tell) options_.tell(what);
}

bool Snapshots::is_due(int64_t next_round) const {
  if (options_.folder.empty() || !program_.rests_before(next_round)) return false;
  const int64_t number = program_.progress(next_round);
  if (number <= last_number_) return false;
  return (options_.every > 0 && number % options_.every == 0) ||
         (options_.every_seconds > 0 && seconds_since(last_) >= options_.every_seconds);
}

bool Snapshots::is_worth_one() const {
  return !options_.folder.empty() && seconds_since(begin_) >= options_.worth_seconds;
}

void Snapshots::announce_end() const {
  tell("interrupted: a checkpoint comes first; once more ends it at once");
}

bool Snapshots::may_be_last(int64_t next_round, bool waits_anyway) const {
  return !options_.folder.empty() && may_stop(next_round, waits_anyway);
}

bool Snapshots::may_stop(int64_t next_round, bool waits_anyway) const {
  if (!program_.rests_before(next_round)) return false;
  return waits_anyway || program_.goes_on_anywhere() || options_.every_seconds > 0 ||
         (options_.every > 0 && program_.progress(next_round) % options_.every == 0);
}

bool Snapshots::is_due_in_memory(int64_t next_round, bool waits_anyway) const {
  if (!options_.memory) return false;
  const int64_t last = std::max(last_number_, last_in_memory_);
  if (!options_.memory->is_due(program_.progress(next_round) - last)) return false;
  if (may_stop(next_round, waits_anyway)) return true;
  options_.memory->wait();
  return false;
}

bool Snapshots::has_news(int64_t next_round) const {
  return program_.progress(next_round) > last_number_;
}

bool Snapshots::is_kept(int64_t next_round) const {
  return newest_ == checkpoint_path(options_.folder, program_.progress(next_round));
}

std::string Snapshots::way_on() const {
  if (newest_.empty()) return {};
  const int64_t failed = counts_.failed;
  return kerf::format("--resume {} goes on from {}{}", newest_.parent_path().string(),
                      newest_.filename().string(),
                      failed > 0 ? kerf::format("; {} more could not be written", failed) : "");
}

std::vector<std::string> Snapshots::ask(const std::vector<std::string>& requests) {
  for (size_t worker = 0; worker < requests.size(); ++worker)
    crew_.send(static_cast<int>(worker), {requests[worker]});
  std::vector<std::string> answers(requests.size());
  for (size_t missing = requests.size(); missing > 0;) {
    const auto batch = crew_.next(runtime::after(std::chrono::seconds(1)));
    if (!batch) continue;
    answers[static_cast<size_t>(batch->worker)] = batch->results.at(0);
    --missing;
  }
  return answers;
}

bool Snapshots::take(int64_t next_round) {
  const auto begin = runtime::Clock::now();
  last_number_ = program_.progress(next_round);
  const fs::path path = checkpoint_path(options_.folder, last_number_);
  const std::string why = write(path, manifest_of(next_round));
  if (why.empty()) {
    ++counts_.taken;
    counts_.bytes += written_;
    newest_ = path;
    told_failure_.clear();
    prune(options_.folder, options_.keep, last_number_);
    let_go_of_left();
  } else {
    remove_checkpoint(path);
    fail(why);
  }
  last_ = runtime::Clock::now();
  counts_.seconds += seconds_since(begin);
  return why.empty();
}

// A disk that is full stays so for a while.
void Snapshots::fail(const std::string& why) {
  ++counts_.failed;
  const std::string reason = reason_of(why);
  if (std::exchange(told_failure_, reason) == reason) return;
  tell(kerf::format("no checkpoint was written, and the run goes on: {}", why));
}

bool Snapshots::take_in_memory(int64_t next_round) {
  const auto begin = runtime::Clock::now();
  KeptMemory& memory = *options_.memory;
  memory.begin();
  last_in_memory_ = program_.progress(next_round);
  const fs::path path = checkpoint_path(memory.folder(), last_in_memory_);
  std::string why;
  try {
    why = write(path, manifest_of(next_round));
  } catch (const Error&) {  // a worker was lost, perhaps for want of what the others wrote
    remove_checkpoint(path);
    throw;
  }
  if (!why.empty()) {
    remove_checkpoint(path);
    memory.fail(why);
    return false;
  }
  if (memory.end_with(path)) let_go_of_left();
  ++counts_.in_memory;
  counts_.in_memory_bytes += written_;
  counts_.in_memory_seconds += seconds_since(begin);
  return true;
}

runtime::Clock::time_point Snapshots::in_memory_until() const { return options_.memory->next_at(); }

void Snapshots::let_go_of_left() {
  if (options_.left) options_.left->remove();
  options_.left.reset();
  if (!std::exchange(forgot_, true)) forget_gone_memory(options_.folder);
}

Checkpoint Snapshots::manifest_of(int64_t next_round) const {
  Checkpoint manifest{.program = program_.name(),
                      .number = program_.progress(next_round),
                      .round = next_round,
                      .workers = static_cast<int64_t>(crew_.workers().size()),
                      .run = options_.run};
  if (!program_.goes_on_anywhere()) manifest.job = job_;
  return manifest;
}

std::string Snapshots::write(const fs::path& path, Checkpoint manifest) {
  if (std::string why = clear_place(path); !why.empty()) return why;
  std::error_code failed;
  // A folder in memory that somebody removed has no warden: it is not made anew.
  if (runtime::lies_in_memory_folder(path))
    fs::create_directory(path, failed);
  else
    fs::create_directories(path, failed);
  std::vector<std::string> requests;
  for (size_t worker = 0; worker < crew_.workers().size(); ++worker)
    requests.push_back(request_of(
        WorkerRequest::kSnapshot,
        runtime::encode(SnapshotOrder{worker_file(path, worker).string(), options_.most_bytes})));
  std::string failure = failed ? kerf::format("{}: {}", path.string(), failed.message()) : "";
  const auto note = [&](const std::string& one) {
    if (failure.empty()) failure = one;
  };
  const SavedPart own = write_part(PartWriter(scheduler_file(path)), program_.snapshot());
  note(own.failure);
  manifest.scheduler = own.part;
  for (const std::string& answer : ask(requests)) {
    SavedPieces saved = runtime::decode<SavedPieces>(answer);
    note(saved.failure);
    manifest.parts.push_back(std::move(saved.pieces));
  }
  if (!failure.empty()) return failure;
  try {
    write_manifest(path, manifest);
    runtime::settle_folder(path.parent_path());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    return error.what();
  }
  written_ = manifest.bytes();
  go_on_from(path, manifest);
  return {};
}

// From now on, where a worker has to.
void Snapshots::go_on_from(const fs::path& path, const Checkpoint& manifest) {
  restore_requests_.clear();
  if (program_.goes_on_anywhere()) {
    const std::string load =
        request_of(WorkerRequest::kLoad, runtime::encode(placed_pieces(path, manifest)));
    restore_requests_.assign(crew_.workers().size(), load);
    return;
  }
  for (size_t worker = 0; worker < crew_.workers().size(); ++worker)
    restore_requests_.push_back(request_of(WorkerRequest::kRestore,
                                           runtime::encode(placed_pieces(path, manifest, worker))));
}

fs::path Snapshots::newest_whole(const fs::path& folder) const {
  std::error_code unknown;
  if (fs::exists(folder / kOlderManifest, unknown))
    throw Error(ErrorCode::kUsage, "it is of an older version of Kerf",
                (folder / kOlderManifest).string());
  std::vector<NumberedFolder> found = checkpoints_in(folder);
  if (options_.left) {  // behind one of the same number on disk
    const std::vector<NumberedFolder> in_memory = checkpoints_in(options_.left->folder());
    found.insert(found.end(), in_memory.begin(), in_memory.end());
    std::ranges::stable_sort(found, std::greater(), &NumberedFolder::number);
  }
  std::vector<std::string> wrong;
  for (const auto& [number, path] : found) {
    const std::vector<std::string> faults = faults_of(path);
    if (faults.empty()) {
      if (!wrong.empty())
        tell(kerf::format("goes on from {}, as newer ones are not whole: {}", path.string(),
                          fmt::join(wrong, "; ")));
      return path;
    }
    wrong.insert(wrong.end(), faults.begin(), faults.end());
  }
  if (wrong.empty()) throw Error(ErrorCode::kUsage, why_none(folder), folder.string());
  throw Error(ErrorCode::kUsage,
              kerf::format("no checkpoint in it is whole: {}", fmt::join(wrong, "; ")),
              folder.string());
}

void Snapshots::expect_this_run(const Checkpoint& manifest, const std::string& where) const {
  const auto refuse_unless = [&](bool fine, const std::string& what) {
    if (!fine) throw Error(ErrorCode::kUsage, what, where);
  };
  refuse_unless(manifest.program == program_.name(),
                kerf::format("it is of the program {}, not {}", manifest.program, program_.name()));
  refuse_unless(manifest.job.has_value() != program_.goes_on_anywhere(),
                "it is of another version of the program");
  const size_t workers = crew_.workers().size();
  refuse_unless(
      program_.goes_on_anywhere() || manifest.workers == static_cast<int64_t>(workers),
      kerf::format("it is of {} workers, and this run has {}", manifest.workers, workers));
  const auto differences = differences_of(manifest.run, options_.run);
  refuse_unless(differences.empty(), kerf::format("its run had {}", fmt::join(differences, "; ")));
  refuse_unless(!manifest.job || *manifest.job == job_,
                "its workers were told something else: other data, or other flags");
}

int64_t Snapshots::resume() {
  if (options_.resume.empty()) {
    remove_unfinished(options_.folder);
    return 0;
  }
  const fs::path path = newest_whole(fs::absolute(options_.resume));
  crew_.allow(path, runtime::StoreAccess::kRead);
  const Checkpoint manifest = read_manifest(path);
  expect_this_run(manifest, path.string());
  runtime::LocalStore own_files;
  restore_from(own_files, {{scheduler_file(path).string(), manifest.scheduler}}, program_);
  go_on_from(path, manifest);
  remove_unfinished(options_.folder);  // of which newest_whole() told
  const bool in_memory = runtime::lies_in_memory_folder(path);
  if (options_.left)
    tell(kerf::format("goes on from {}, {} {}", in_memory ? "memory" : "the disk",
                      program_.goes_on_anywhere() ? "step" : "round", manifest.number));
  if (in_memory) {  // which is gone soon, and with it what that run was worth
    if (std::isfinite(options_.worth_seconds)) options_.worth_seconds = 0;
    last_in_memory_ = manifest.number;
    return manifest.round;
  }
  newest_ = path;
  last_number_ = manifest.number;
  return manifest.round;
}

void Snapshots::restore_workers() { ask(restore_requests_); }

}  // namespace kerf::schedmp
