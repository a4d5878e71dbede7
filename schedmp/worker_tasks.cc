#include "schedmp/worker_tasks.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"
#include "runtime/wire.h"

namespace kerf::schedmp {

namespace {

constexpr size_t kMostKept = size_t{256} << 20;  // bytes of tasks and results, of all workers
constexpr int kCommitShare = 100;                // of the time, one part goes into commits
constexpr int kLossesInARound = 3;

}  // namespace

WorkerTasks::WorkerTasks(runtime::Crew& crew, RestartOptions options, bool keeps_state)
    : crew_(crew), options_(std::move(options)), repeats_(options_.allowed) {
  const size_t workers = crew_.workers().size();
  logs_.assign(workers, TaskLog(repeats_));
  commits_ = repeats_ && keeps_state;
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

void WorkerTasks::begin_round(int64_t round) {
  if (may_commit(round)) {
    commit_ = Commit{round, logs_.size(), runtime::Clock::now(), {}};
    for (size_t worker = 0; worker < logs_.size(); ++worker) {
      std::string file = crew_.kept_file(static_cast<int>(worker), files_);
      logs_[worker].add_barrier(request_of(WorkerRequest::kCommit, file));
      commit_->parts.push_back({std::move(file), {}});
    }
    return;
  }
  if (!repeats_ || commit_) return;
  size_t kept = 0;
  for (const TaskLog& log : logs_) kept += log.bytes();
  if (kept <= kMostKept) return;
  repeats_ = commits_ = false;
  for (TaskLog& log : logs_) log.give_up();
}

void WorkerTasks::send() {
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
    if (commit_) commit_->begin = runtime::Clock::now();
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
  if (!commits_) return;
  stood_ = commit.round;
  restore_.clear();
  for (const PlacedPart& placed : commit.parts)
    restore_.push_back(request_of(WorkerRequest::kRestore, runtime::encode(placed)));
  files_ = 1 - files_;
  const auto took = runtime::Clock::now() - commit.begin;
  next_at_ = runtime::Clock::now() +
             std::max<runtime::Clock::duration>(options_.commit_every, kCommitShare * took);
}

void WorkerTasks::stand(int64_t round, std::vector<std::string> restore) {
  for (TaskLog& log : logs_) log.forget();
  stood_ = round;
  restore_ = std::move(restore);
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
  const std::optional<int> culprit = crew_.culprit();
  const auto at = culprit ? logs_[static_cast<size_t>(*culprit)].at() : std::nullopt;
  if (!at) throw error;
  const std::string place = kerf::format("round {}, task {}", at->round, at->task);
  throw Error(error.code(), error.message(),
              error.where().empty() ? place : error.where() + ", " + place);
}

void WorkerTasks::recover(const Error& loss) {
  for (Error why = loss;;) {
    if (!repeats_ || !crew_.can_restart()) throw_with_place(why);
    expect_another_end(why);
    if (options_.lost) options_.lost(why, stood_);
    ++restarts_;
    try {
      crew_.restart(options_.waiting);
      restore();
      break;
    } catch (const Error& again) {
      why = again;
    }
  }
  commit_.reset();
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
