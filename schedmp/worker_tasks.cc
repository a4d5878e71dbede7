#include "schedmp/worker_tasks.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/error.h"
#include "runtime/wire.h"

namespace kerf::schedmp {

namespace {

constexpr size_t kMostKept = size_t{256} << 20;  // bytes of tasks and results, of all workers
constexpr int kCommitShare = 100;                // of the time, one part goes into commits
constexpr int kLossesInARound = 3;
constexpr int kRestartsInARow = 3;       // that fail
constexpr int64_t kMostLater = 100'000;  // times as long until the next commit

// Gives back the memory of files that are not gone on from.
void empty(const std::vector<PlacedPart>& parts) {
  std::error_code ignored;
  for (const PlacedPart& placed : parts) std::filesystem::resize_file(placed.file, 0, ignored);
}

}  // namespace

WorkerTasks::WorkerTasks(runtime::Crew& crew, RestartOptions options, bool keeps_state)
    : crew_(crew), options_(std::move(options)), repeats_(options_.allowed) {
  const size_t workers = crew_.workers().size();
  logs_.assign(workers, TaskLog(repeats_));
  commits_ = repeats_ && options_.keeps && keeps_state;
  kept_bytes_.resize(workers);
  for (size_t worker = 0; worker < workers && commits_; ++worker)
    commits_ = !crew_.kept_file(static_cast<int>(worker), 0).empty();
  next_at_ = runtime::after(options_.commit_every);
}

void WorkerTasks::add(int worker, const OwedTask& owed, std::string request) {
  logs_.at(static_cast<size_t>(worker)).add(owed, std::move(request));
}

bool WorkerTasks::may_commit(int64_t round) const {
  return commits_ && !commit_ && round > stood_ && runtime::Clock::now() >= next_at_;
}

void WorkerTasks::begin_round(int64_t round, bool rests) {
  if (rests && may_commit(round))
    begin_commit(round);
  else if (repeats_ && !commit_)
    limit_what_is_kept();
}

void WorkerTasks::begin_commit(int64_t round) {
  commit_ = Commit{.round = round, .missing = logs_.size()};
  for (size_t worker = 0; worker < logs_.size(); ++worker) {
    std::string file = crew_.kept_file(static_cast<int>(worker), files_);
    logs_[worker].add_barrier(request_of(WorkerRequest::kCommit, file));
    commit_->parts.push_back({std::move(file), {}});
  }
}

void WorkerTasks::limit_what_is_kept() {
  size_t kept = 0;
  for (const TaskLog& log : logs_) kept += log.bytes();
  if (kept <= kMostKept) return;
  repeats_ = commits_ = false;
  for (TaskLog& log : logs_) log.give_up();
}

// When all have done what lies before it: what one keeps may be of others' making.
void WorkerTasks::ask_for_commit() {
  if (commit_->asked) return;
  const auto waits = [](const TaskLog& log) { return log.at_barrier(); };
  if (!commit_->begin && std::any_of(logs_.begin(), logs_.end(), waits))
    commit_->begin = runtime::Clock::now();
  commit_->asked = std::all_of(logs_.begin(), logs_.end(), waits);
  if (commit_->asked)
    for (TaskLog& log : logs_) log.open_barrier();
}

void WorkerTasks::send() {
  if (commit_) ask_for_commit();
  for (size_t worker = 0; worker < logs_.size(); ++worker)
    if (logs_[worker].has_more()) crew_.send(static_cast<int>(worker), logs_[worker].take());
}

bool WorkerTasks::owed() const {
  return std::any_of(logs_.begin(), logs_.end(), [](const TaskLog& log) { return log.owed(); });
}

void WorkerTasks::collect(std::vector<Done>& done) {
  std::optional<runtime::CrewResults> batch = crew_.next(runtime::after(std::chrono::seconds(1)));
  if (!batch) return;
  const auto worker = static_cast<size_t>(batch->worker);
  for (std::string& result : batch->results) {
    TaskLog::Answer answer = logs_[worker].answer(result);
    if (!answer.owed) {
      take_commit(worker, result);
      continue;
    }
    if (answer.before) ++repeated_;
    done.push_back({batch->worker, *answer.owed, std::move(result), std::move(answer.before)});
  }
}

void WorkerTasks::take_commit(size_t worker, const std::string& answer) {
  commit_->parts[worker].part = runtime::decode<SnapshotPart>(answer);
  if (--commit_->missing == 0) end_commit();
}

void WorkerTasks::end_commit() {
  const Commit commit = *std::exchange(commit_, std::nullopt);
  const auto has_room = [](const PlacedPart& placed) { return placed.part != kNoRoom; };
  commits_ = std::all_of(commit.parts.begin(), commit.parts.end(), has_room);
  for (TaskLog& log : logs_) log.pass_barrier(!commits_);
  if (!commits_) {
    if (options_.tell)
      options_.tell(kerf::format(
          "there is no memory to keep what workers hold: behind a loss all begin again before "
          "round {}, unless there is a checkpoint since",
          stood_));
    return empty(commit.parts);
  }
  stood_ = commit.round;
  filled_.at(static_cast<size_t>(files_)) = commit.parts;
  later_ = 1;
  restore_.clear();
  kept_bytes_.clear();
  for (const PlacedPart& placed : commit.parts) {
    restore_.push_back(request_of(WorkerRequest::kRestore, runtime::encode(placed)));
    kept_bytes_.push_back(placed.part.bytes);
    commit_counts_.bytes += placed.part.bytes;
  }
  files_ = 1 - files_;
  const auto took = runtime::Clock::now() - *commit.begin;
  ++commit_counts_.taken;
  commit_counts_.seconds += std::chrono::duration<double>(took).count();
  next_at_ = runtime::Clock::now() +
             std::max<runtime::Clock::duration>(options_.commit_every, kCommitShare * took);
}

// A worker was lost within it, perhaps because there is no room for what it keeps: the next comes
// later, and later each time.
void WorkerTasks::commit_in_vain() {
  const Commit commit = *std::exchange(commit_, std::nullopt);
  if (!commit.asked) return;
  empty(commit.parts);
  later_ = std::min(10 * later_, kMostLater);
  next_at_ = runtime::Clock::now() + later_ * options_.commit_every;
}

void WorkerTasks::stand(int64_t round, std::vector<std::string> restore,
                        runtime::Clock::time_point until) {
  for (TaskLog& log : logs_) log.forget();
  for (std::vector<PlacedPart>& parts : filled_) empty(std::exchange(parts, {}));
  stood_ = round;
  restore_ = std::move(restore);
  next_at_ = std::max(next_at_, until + options_.commit_every);
}

int64_t WorkerTasks::first_missing() const {
  int64_t first = INT64_MAX;
  for (const TaskLog& log : logs_) first = std::min(first, log.first_missing().value_or(first));
  return first;
}

// What ends a worker in one round would do so for ever.
void WorkerTasks::expect_another_end(const Error& loss) {
  const int64_t at = first_missing();
  if (at != lost_at_) {
    losses_there_ = 0;
    first_loss_ = loss;
  }
  lost_at_ = at;
  if (++losses_there_ < kLossesInARound) return;
  throw Error(first_loss_->code(),
              kerf::format("{}\n  that, and {} losses in the same round since",
                           first_loss_->message(), kLossesInARound - 1),
              first_loss_->where());
}

void WorkerTasks::throw_with_place(const Error& error) const {
  std::string message = error.message();
  if (options_.allowed && !repeats_ && crew_.can_restart())
    message += kerf::format(
        "\n  it cannot be gone on from: there were more than {} MiB of tasks and results since "
        "workers last kept what they held",
        kMostKept >> 20);
  const std::optional<int> culprit = crew_.culprit();
  const auto at = culprit ? logs_[static_cast<size_t>(*culprit)].at() : std::nullopt;
  if (!at) throw Error(error.code(), message, error.where());
  const std::string place = kerf::format("round {}, task {}", at->round, at->task);
  throw Error(error.code(), message, error.where().empty() ? place : error.where() + ", " + place);
}

void WorkerTasks::recover(const Error& loss) {
  Error why = loss;
  for (int failed = 0;; ++failed) {
    if (!repeats_ || !crew_.can_restart() || failed == kRestartsInARow) throw_with_place(why);
    // Who dies before it has its tasks does not die of them.
    if (failed == 0) expect_another_end(why);
    if (options_.lost) options_.lost(why, stood_);
    ++restarts_;
    try {
      crew_.restart(options_.waiting);
      restore();
      break;
    } catch (const Error& again) {
      why = crew_.can_restart() ? again
                                : Error(again.code(),
                                        kerf::format("{}\n  that was to go on behind this: {}",
                                                     again.message(), why.message()),
                                        again.where());
    }
  }
  if (commit_) commit_in_vain();
  for (TaskLog& log : logs_) log.repeat();
}

void WorkerTasks::restore() {
  size_t missing = restore_.size();
  for (size_t worker = 0; worker < restore_.size(); ++worker)
    crew_.send(static_cast<int>(worker), {restore_[worker]});
  while (missing > 0)
    if (crew_.next(runtime::after(std::chrono::seconds(1)))) --missing;
}

}  // namespace kerf::schedmp
