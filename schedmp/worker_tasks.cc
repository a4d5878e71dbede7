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
constexpr size_t kMuchKept = kMostKept / 2;      // where it is time for a commit by steps
constexpr int kCommitShare = 100;                // of the time, one part goes into commits
constexpr int kLossesInARound = 3;
constexpr int64_t kRoundsUntold = 8;  // that a worker may have done when it died, at most
constexpr int kLossesWithoutARound = 10;
constexpr int kRestartsInARow = 3;       // that fail
constexpr int64_t kMostLater = 100'000;  // times as long until the next commit

// Steps behind these by `times` times as many as `every` says, or the largest number.
int64_t steps_behind(int64_t steps, int64_t every, int64_t times = 1) {
  if (every > (INT64_MAX - steps) / times) return INT64_MAX;
  return steps + times * every;
}

// Gives back the memory of files that are not gone on from.
void empty(const std::vector<PlacedPart>& parts) {
  std::error_code ignored;
  for (const PlacedPart& placed : parts) std::filesystem::resize_file(placed.file, 0, ignored);
}

}  // namespace

std::string beginning_at(const RoundAndSteps& place, bool counts_steps) {
  return counts_steps ? kerf::format("from step {}", place.steps)
                      : kerf::format("before round {}", place.round);
}

WorkerTasks::WorkerTasks(runtime::Crew& crew, RestartOptions options, bool keeps_state,
                         LoopSpans& spans)
    : crew_(crew), options_(std::move(options)), spans_(spans), repeats_(options_.allowed) {
  const size_t workers = crew_.workers().size();
  logs_.assign(workers, TaskLog(repeats_));
  may_commit_ = repeats_ && options_.keeps && keeps_state;
  kept_bytes_.resize(workers);
  for (size_t worker = 0; worker < workers && may_commit_; ++worker)
    may_commit_ = !crew_.kept_file(static_cast<int>(worker), 0).empty();
  commits_ = may_commit_;
  next_at_ = runtime::after(options_.commit_every);
  next_steps_ = options_.commit_steps;
}

void WorkerTasks::add(int worker, const OwedTask& owed, std::string request) {
  logs_.at(static_cast<size_t>(worker)).add(owed, std::move(request));
}

bool WorkerTasks::is_due(const Place& place) const {
  if (!commits_ || place.round <= stood_.round) return false;
  if (!commit_ && later_ == 1 && bytes_of_logs() > kMuchKept) return true;
  if (options_.commit_steps > 0) return place.steps >= next_steps_;
  return !commit_ && runtime::Clock::now() >= next_at_;
}

// By steps one may be due while the last is on its way.
void WorkerTasks::begin_round(const Place& place, bool rests) {
  behind_ = place.round + 1;
  if (rests && is_due(place)) {
    next_steps_ = steps_behind(place.steps, options_.commit_steps);
    due_.push_back(place);
    begin_due();
  } else if (repeats_ && !commit_) {
    limit_what_is_kept();
  }
}

void WorkerTasks::begin_due() {
  if (commit_ || due_.empty()) return;
  begin_commit(due_.front());
  due_.pop_front();
}

void WorkerTasks::begin_commit(const Place& place) {
  commit_ = Commit{.place = place, .missing = logs_.size()};
  for (size_t worker = 0; worker < logs_.size(); ++worker) {
    std::string file = crew_.kept_file(static_cast<int>(worker), files_);
    logs_[worker].add_barrier(request_of(WorkerRequest::kCommit, file), place.round);
    commit_->parts.push_back({std::move(file), {}});
  }
}

size_t WorkerTasks::bytes_of_logs() const {
  size_t kept = 0;
  for (const TaskLog& log : logs_) kept += log.bytes();
  return kept;
}

void WorkerTasks::limit_what_is_kept() {
  if (bytes_of_logs() <= kMostKept) return;
  repeats_ = commits_ = false;
  gave_up_ = true;
  for (TaskLog& log : logs_) log.give_up();
  if (options_.tell)
    options_.tell(kerf::format(
        "there are more than {} MiB of tasks and results since workers last kept what they held, "
        "and no more are kept: until there is a checkpoint, a loss ends the run",
        kMostKept >> 20));
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
    end_recovery();
    done.push_back({batch->worker, *answer.owed, std::move(result), std::move(answer.before)});
  }
}

void WorkerTasks::take_commit(size_t worker, const std::string& answer) {
  SavedPieces saved = runtime::decode<SavedPieces>(answer);
  if (saved.pieces.size() != 1)
    throw Error(ErrorCode::kProtocol, kerf::format("worker {} keeps what it holds in {} files",
                                                   worker, saved.pieces.size()));
  commit_->parts[worker].part = saved.pieces.front();
  if (commit_->failure.empty()) commit_->failure = std::move(saved.failure);
  if (--commit_->missing == 0) end_commit();
}

void WorkerTasks::end_commit() {
  const Commit commit = *std::exchange(commit_, std::nullopt);
  const bool in_vain = !commit.failure.empty();
  for (TaskLog& log : logs_) log.pass_barrier(in_vain);
  if (in_vain) {
    if (options_.tell && !std::exchange(told_in_vain_, true))
      options_.tell(kerf::format(
          "what workers hold cannot be kept, which is tried again, later each time; until then all "
          "begin again {} behind a loss, unless there is a checkpoint since: {}",
          beginning_at(stood_, options_.counts_steps), commit.failure));
    come_later(commit.place);
    return empty(commit.parts);
  }
  told_in_vain_ = false;
  stood_ = commit.place;
  filled_.at(static_cast<size_t>(files_)) = commit.parts;
  later_ = 1;
  tried_again_ = false;
  restore_.clear();
  kept_bytes_.clear();
  int64_t bytes = 0;
  for (const PlacedPart& placed : commit.parts) {
    restore_.push_back(request_of(WorkerRequest::kRestore, runtime::encode(std::vector{placed})));
    kept_bytes_.push_back(placed.part.bytes);
    bytes += placed.part.bytes;
  }
  files_ = 1 - files_;
  const auto took = runtime::Clock::now() - *commit.begin;
  ++commit_counts_.taken;
  commit_counts_.bytes += bytes;
  commit_counts_.seconds += std::chrono::duration<double>(took).count();
  const int64_t end_ns = runtime::now_ns();
  const auto took_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  spans_.add({.name = kerf::format("commit {}, {}", beginning_at(stood_, options_.counts_steps),
                                   human_bytes(static_cast<double>(bytes))),
              .lane = runtime::TraceRow::kSaves,
              .begin_ns = end_ns - took_ns,
              .end_ns = end_ns,
              .step = commit.place.steps});
  next_at_ = runtime::Clock::now() +
             std::max<runtime::Clock::duration>(options_.commit_every, kCommitShare * took);
  begin_due();
}

// A worker was lost within it, perhaps because there is no room for what it keeps: the next comes
// later, and later each time. By steps, which may take much of the time, a loss mostly is for
// another reason: what was in vain once is due as it was.
void WorkerTasks::commit_in_vain() {
  const Commit commit = *std::exchange(commit_, std::nullopt);
  if (commit.asked) empty(commit.parts);
  const bool by_steps = options_.commit_steps > 0;
  if (!commit.asked || (by_steps && !std::exchange(tried_again_, true))) {
    if (by_steps) due_.push_front(commit.place);
    return;
  }
  come_later(commit.place);
}

void WorkerTasks::come_later(const Place& place) {
  due_.clear();
  later_ = std::min(10 * later_, kMostLater);
  next_at_ = runtime::Clock::now() + later_ * options_.commit_every;
  next_steps_ = steps_behind(place.steps, options_.commit_steps, later_);
}

void WorkerTasks::stand(const Place& place, std::vector<std::string> restore,
                        runtime::Clock::time_point until) {
  for (TaskLog& log : logs_) log.forget();
  if (std::exchange(gave_up_, false)) {
    repeats_ = true;
    commits_ = may_commit_;
    logs_.assign(logs_.size(), TaskLog(repeats_));
  }
  behind_ = std::max(behind_, place.round);
  for (std::vector<PlacedPart>& parts : filled_) empty(std::exchange(parts, {}));
  stood_ = place;
  restore_ = std::move(restore);
  next_at_ = std::max(next_at_, until + options_.commit_every);
  next_steps_ = std::max(next_steps_, steps_behind(place.steps, options_.commit_steps));
}

// Where nothing is, a loss is of what comes behind the last round: a checkpoint.
int64_t WorkerTasks::first_missing() const {
  int64_t first = behind_;
  for (const TaskLog& log : logs_) first = std::min(first, log.first_missing().value_or(first));
  return first;
}

// What ends a worker in one round would do so for ever. One that is lost well before, while what it
// had done is repeated, did not come to that round; but so many of these are enough, too.
void WorkerTasks::expect_another_end(const Error& loss) {
  const int64_t missing = first_missing();
  if (missing != lost_at_) losses_there_ = losses_since_ = 0;
  lost_at_ = missing;
  const std::optional<int> culprit = crew_.culprit();
  const auto at = culprit ? logs_[static_cast<size_t>(*culprit)].at() : std::nullopt;
  const bool there = !at || at->round >= missing - kRoundsUntold;
  if (losses_since_++ == 0 || (there && losses_there_ == 0)) first_loss_ = loss;
  if (there) ++losses_there_;
  std::string others;
  if (losses_there_ == kLossesInARound)
    others = kerf::format("{} losses in the same round", losses_there_ - 1);
  else if (losses_since_ == kLossesWithoutARound)
    others = kerf::format("{} losses before anything new was done", losses_since_ - 1);
  else
    return;
  throw Error(first_loss_->code(),
              kerf::format("{}\n  that, and {} since", first_loss_->message(), others),
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

// Behind a loss while workers begin again (not the `first`) nothing more was done.
void WorkerTasks::begin_recovery(const Error& loss, bool first) {
  end_recovery();
  Recovery recovery{.worker = crew_.culprit(),
                    .why = loss.message().substr(0, loss.message().find('\n')),
                    .round = stood_.round,
                    .reached = first_missing(),
                    .step = options_.counts_steps ? std::optional(stood_.steps) : std::nullopt,
                    .begin_ns = runtime::now_ns()};
  for (size_t i = 0; first && i < logs_.size(); ++i) {
    const TaskLog::Sent sent = logs_[i].sent_tasks();
    recovery.answered += sent.answered;
    recovery.unanswered += sent.unanswered;
  }
  recovery.end_ns = recovery.begin_ns;
  recoveries_.push_back(std::move(recovery));
  recovers_ = true;
}

void WorkerTasks::end_recovery() {
  if (!std::exchange(recovers_, false)) return;
  Recovery& last = recoveries_.back();
  last.end_ns = runtime::now_ns();
  const RoundAndSteps place{.round = last.round, .steps = last.step.value_or(0)};
  const std::string where = beginning_at(place, last.step.has_value());
  spans_.add({.name = kerf::format("restart {}: {}", where, last.why),
              .kind = runtime::Span::Kind::kWait,
              .lane = runtime::TraceRow::kRestarts,
              .begin_ns = last.begin_ns,
              .end_ns = last.end_ns});
}

void WorkerTasks::recover(const Error& loss) {
  Error why = loss;
  for (int failed = 0;; ++failed) {
    if (!repeats_ || !crew_.can_restart() || failed == kRestartsInARow) throw_with_place(why);
    // Who dies before it has its tasks does not die of them.
    if (failed == 0) expect_another_end(why);
    if (options_.lost) options_.lost(why, stood_);
    begin_recovery(why, failed == 0);
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
  begin_due();
}

void WorkerTasks::restore() {
  size_t missing = restore_.size();
  for (size_t worker = 0; worker < restore_.size(); ++worker)
    crew_.send(static_cast<int>(worker), {restore_[worker]});
  while (missing > 0)
    if (crew_.next(runtime::after(std::chrono::seconds(1)))) --missing;
}

}  // namespace kerf::schedmp
