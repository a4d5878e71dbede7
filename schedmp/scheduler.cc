#include "schedmp/scheduler.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

// A round under way: the results that are in, by task, and how many are not.
struct Round {
  size_t missing = 0;
  std::vector<EncodedProgram::Result> results;
};

class Loop {
 public:
  Loop(EncodedProgram& program, runtime::Crew& crew, const LoopOptions& options,
       Snapshots& snapshots)
      : program_(program),
        snapshots_(snapshots),
        tasks_(crew, options.restarts, program.keeps_state(), spans_),
        workers_(crew.workers().size()),
        unordered_(program.unordered()),
        depth_(static_cast<size_t>(std::max(1, options.depth.value_or(program.depth())))),
        batch_(std::clamp<size_t>(static_cast<size_t>(std::max(1, options.batch)), 1, depth_)),
        interrupt_(options.interrupt),
        asks_to_leave_(options.leaves) {}
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop() {
    if (interrupt_) interrupt_->heed(false);
  }

  // `start` has the crew's workers begin.
  template <class Start>
  LoopReport run(const Start& start) {
    report_.rounds = next_round_ = snapshots_.resume();
    tasks_.stand(place(), snapshots_.restore_requests());
    try {
      start();
      snapshots_.restore_workers();
    } catch (const Error& error) {
      recover(error);  // which starts others, and restores them
    }
    const auto begin = runtime::Clock::now();
    while (!done_ || !rounds_.empty()) {
      heed_interrupts();
      leaves_ = leaves_ || (asks_to_leave_ && asks_to_leave_());
      if (rounds_.empty() && snapshots_.is_due(next_round_)) snapshot();
      if (rounds_.empty() && is_due_in_memory()) snapshot_in_memory();
      if (rounds_.empty() && ends_here()) end_early();
      fill();
      if (!fold()) collect();
    }
    end_repetitions();
    report_.snapshots = snapshots_.counts();
    report_.seconds = std::chrono::duration<double>(runtime::Clock::now() - begin).count();
    report_.recoveries = tasks_.recoveries();
    report_.restarts = std::ssize(report_.recoveries);
    report_.repeated_tasks = tasks_.repeated();
    report_.kept_bytes = tasks_.kept_bytes();
    report_.commits = tasks_.commits();
    report_.spans_lost = spans_.lost();
    report_.spans = spans_.take();
    return report_;
  }

 private:
  // Does what may meet the loss of a worker; again, where it did.
  template <class Do>
  void with_workers(const Do& act) {
    for (bool done = false; !done;) {
      try {
        act();
        done = true;
      } catch (const Error& error) {
        recover(error);
      }
    }
  }

  // Whoever ends it while it waits for others, or had no more time for it, is told what there is to
  // go on from.
  void recover(const Error& error) {
    try {
      tasks_.recover(error);
    } catch (const Error& why) {
      std::string way_on = snapshots_.way_on();
      if (way_on.empty() && asked_)
        way_on = "no checkpoint was written, since the run came to no place for one in time";
      if (why.code() != ErrorCode::kInterrupted || way_on.empty()) throw;
      throw Error(why.code(), kerf::format("interrupted; {}", way_on));
    }
  }

  // What the program throws without a place has this one.
  template <class Act>
  auto within(const char* function, int64_t round, const Act& act) {
    const auto place = [&] { return kerf::format("{}, {}", where(round), function); };
    try {
      return act();
    } catch (const Error& error) {
      if (!error.where().empty()) throw;
      throw Error(error.code(), error.message(), place());
    } catch (const std::exception& error) {
      throw Error(ErrorCode::kInternal, error.what(), place());
    }
  }

  // Only where there will be something to go on from.
  void heed_interrupts() {
    if (!interrupt_) return;
    interrupt_->heed(snapshots_.is_worth_one());
    if (!interrupt_->asked() || interrupt_->raised() || std::exchange(asked_, true)) return;
    snapshots_.announce_end();
  }

  // A schedule that looks at results is asked no sooner nor later than it would have been.
  bool ends_here() const {
    return (asked_ || leaves_) && snapshots_.may_be_last(next_round_, depth_ == 1);
  }

  // Who was only to leave stays where there is nothing to go on from, and hears of it by being
  // asked again.
  void end_early() {
    if (snapshots_.has_news(next_round_)) snapshot();
    const std::string way_on = snapshots_.way_on();
    if (!asked_ && snapshots_.is_kept(next_round_)) throw Left(way_on);
    leaves_ = false;
    if (!asked_) return;
    throw Error(ErrorCode::kInterrupted,
                way_on.empty() ? "interrupted" : kerf::format("interrupted; {}", way_on));
  }

  // Shown in a trace, unless a worker was lost meanwhile. Whether it is there.
  template <class Take>
  bool shown(const char* what, const Take& take) {
    const auto bytes = [&] {
      return snapshots_.counts().bytes + snapshots_.counts().in_memory_bytes;
    };
    const int64_t begin_ns = runtime::now_ns();
    const int64_t before = bytes();
    const bool taken = take();
    const int64_t steps = place().steps;
    spans_.add({.name = taken ? kerf::format("{} {}, {}", what, steps,
                                             human_bytes(static_cast<double>(bytes() - before)))
                              : kerf::format("{} {}, which could not be written", what, steps),
                .lane = runtime::TraceRow::kSaves,
                .begin_ns = begin_ns,
                .end_ns = runtime::now_ns(),
                .step = steps});
    return taken;
  }

  void snapshot() {
    bool taken = false;
    with_workers([&] {
      finish_owed();
      taken = shown("checkpoint", [&] { return snapshots_.take(next_round_); });
    });
    if (taken) tasks_.stand(place(), snapshots_.restore_requests());
  }

  bool is_due_in_memory() const { return snapshots_.is_due_in_memory(next_round_, depth_ == 1); }

  // Behind the loss of a worker it is not tried again.
  void snapshot_in_memory() {
    bool taken = false;
    with_workers([&] {
      finish_owed();
      taken = is_due_in_memory() &&
              shown("checkpoint in memory", [&] { return snapshots_.take_in_memory(next_round_); });
    });
    if (taken) tasks_.stand(place(), snapshots_.restore_requests(), snapshots_.in_memory_until());
  }

  // Schedules ahead, in batches, as far as the depth allows, and not beyond a snapshot.
  void fill() {
    if (!waits_ && !rounds_.empty() && rounds_.size() + batch_ > depth_) return;
    while (!done_ && (!waits_ || news_) && rounds_.size() < depth_ &&
           (rounds_.empty() || !(snapshots_.is_due(next_round_) || is_due_in_memory())) &&
           !ends_here()) {
      waits_ = false;
      const WorkerTasks::Place before = place();
      EncodedProgram::Decision decision =
          within("schedule", next_round_, [&] { return program_.schedule(next_round_); });
      if (std::holds_alternative<Done>(decision))
        done_ = true;
      else if (std::holds_alternative<Wait>(decision))
        wait();
      else
        begin(before, std::get<std::vector<EncodedProgram::Task>>(std::move(decision)));
    }
  }

  void wait() {
    if (rounds_.empty())
      throw Error(ErrorCode::kInternal,
                  "it waits for a result before its next round, and no task is under way",
                  where(next_round_));
    waits_ = true;
    news_ = false;
  }

  void begin(const WorkerTasks::Place& before, std::vector<EncodedProgram::Task> tasks) {
    const int64_t number = next_round_++;
    KERF_CHECK(!tasks.empty(), "{} schedules no task; what has none to begin yet waits",
               where(number));
    tasks_.begin_round(before, program_.rests_before(number));
    Round& round = rounds_[number];
    round.missing = tasks.size();
    round.results.resize(tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i) {
      EncodedProgram::Task& task = tasks[i];
      KERF_CHECK(task.worker >= 0 && static_cast<size_t>(task.worker) < workers_,
                 "{} schedules worker {} of {}", where(number), task.worker, workers_);
      round.results[i] = {task.worker, {}, task.id};
      tasks_.add(task.worker, {number, i}, std::move(task.payload));
    }
    report_.tasks += static_cast<int64_t>(tasks.size());
  }

  void collect() {
    if (!rounds_.empty()) with_workers([&] { exchange(); });
    take_done();
  }

  // Of tasks whose first results are all in.
  void end_repetitions() {
    with_workers([&] { finish_owed(); });
    tasks_.end_recovery();
  }

  void take_done() {
    for (WorkerTasks::Done& done : std::exchange(done_tasks_, {})) take(done);
  }

  // What is done again is compared before anything is kept of it.
  void finish_owed() {
    while (tasks_.owed()) exchange();
    take_done();
  }

  void exchange() {
    tasks_.send();
    tasks_.collect(done_tasks_);
  }

  void take(WorkerTasks::Done& done) {
    if (done.before)
      return within("compare", done.owed.round, [&] {
        program_.compare(done.owed.round, {done.worker, std::move(*done.before)},
                         {done.worker, std::move(done.payload)});
      });
    Round& round = rounds_.at(done.owed.round);
    round.results[done.owed.task].payload = std::move(done.payload);
    --round.missing;
    if (unordered_) fold_one(done.owed, round);
  }

  void fold_one(const OwedTask& task, Round& round) {
    std::vector<EncodedProgram::Result> one{std::move(round.results[task.task])};
    if (round.missing == 0) end(task.round);
    aggregate(task.round, std::move(one));
  }

  // The oldest round, if its results are in. No more: the program is asked for the next before
  // another is folded in, so that what it has seen by then does not depend on when results came.
  bool fold() {
    if (unordered_ || rounds_.empty() || rounds_.begin()->second.missing > 0) return false;
    const int64_t number = rounds_.begin()->first;
    std::vector<EncodedProgram::Result> results = std::move(rounds_.begin()->second.results);
    end(number);
    aggregate(number, std::move(results));
    return true;
  }

  void aggregate(int64_t round, std::vector<EncodedProgram::Result> results) {
    within("aggregate", round, [&] { program_.aggregate(round, std::move(results)); });
    news_ = true;
  }

  void end(int64_t round) {
    rounds_.erase(round);
    ++report_.rounds;
  }

  // Of the next round.
  WorkerTasks::Place place() const { return {next_round_, program_.progress(next_round_)}; }

  std::string where(int64_t round) const {
    return kerf::format("program {}, round {}", program_.name(), round);
  }

  EncodedProgram& program_;
  Snapshots& snapshots_;
  LoopSpans spans_;
  WorkerTasks tasks_;
  const size_t workers_;
  const bool unordered_;
  const size_t depth_;
  const size_t batch_;
  const std::shared_ptr<runtime::Interrupt> interrupt_;
  const std::function<bool()> asks_to_leave_;
  bool asked_ = false;   // to end
  bool leaves_ = false;  // for another process to go on
  bool done_ = false;
  bool waits_ = false;  // the program's last answer
  bool news_ = false;   // something was folded in since
  int64_t next_round_ = 0;
  std::map<int64_t, Round> rounds_;
  std::vector<WorkerTasks::Done> done_tasks_;  // scratch
  LoopReport report_;
};

TransportTable transports_of(const runtime::Crew& crew, const LaneTable& lanes) {
  TransportTable table(lanes.size());
  for (size_t u = 0; u < lanes.size(); ++u) {
    table[u].resize(lanes[u].size());
    for (size_t v = 0; v < lanes[u].size(); ++v)
      if (u != v && !lanes[u][v].empty())
        table[u][v] = crew.transport_between(static_cast<int>(u), static_cast<int>(v));
  }
  return table;
}

}  // namespace

LoopReport run(EncodedProgram& program, runtime::Crew& crew, const LoopOptions& options) {
  const int workers = static_cast<int>(crew.workers().size());
  const LaneTable lanes = program.lanes(workers);
  program.channels_go_over(transports_of(crew, lanes));
  for (const std::filesystem::path& folder : program.folders())
    crew.allow(folder, runtime::StoreAccess::kWrite);
  const LaneTable serve = table_lanes(program.tables(workers), workers);
  std::vector<std::string> jobs;
  for (int worker = 0; worker < workers; ++worker) jobs.push_back(program.job(worker));
  Snapshots snapshots(options.snapshots, program, crew, jobs);
  return Loop(program, crew, options, snapshots).run([&] {
    crew.start(program.name(), jobs, lanes, serve);
  });
}

}  // namespace kerf::schedmp
