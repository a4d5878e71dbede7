// Programs: what a user writes, after the STRADS primitives (Kim et al., EuroSys 2016), as two
// classes.
//
//   schedule()   on the scheduler: picks a set of tasks for workers, or waits, or is done
//   update()     on a worker: does one of them
//   aggregate()  on the scheduler: folds results in
//
//   struct CountMessages {
//     using Job = schedmp::NoJob;
//     using Task = int64_t;
//     using Result = int64_t;
//   };
//   class Count : public schedmp::SchedulerHalf<CountMessages> { ... };
//   class CountWorker : public schedmp::WorkerHalf<CountMessages> { ... };
//
// Messages are of any types that travel (runtime/wire.h); who runs a program never sees them
// (encoded_program.h). A set of tasks with what it leads to is a round. A task and a result each go
// into a control message of 1 MiB, a job into one of 64.
//
// Threads: the scheduler's half is called by the loop's thread, a worker's by its compute thread.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/channel.h"
#include "runtime/worker.h"
#include "schedmp/snapshot_part.h"
#include "schedmp/tables/table_spec.h"

namespace kerf::schedmp {

// What a worker is to do. Several of a round may be for one worker, which does them in this order.
template <class Payload>
struct TaskFor {
  int worker = 0;
  Payload payload = {};
  int64_t id = 0;  // the program's own: its result has it, too
};

template <class Payload>
struct ResultFrom {
  int worker = 0;
  Payload payload = {};
  int64_t id = 0;  // of its task
};

// Nothing can begin before a result is in. With no task under way that would be for ever: it ends
// the run.
struct Wait {};
struct Done {};
// The tasks of a round, of which there is at least one.
template <class Payload>
using Decision = std::variant<std::vector<TaskFor<Payload>>, Wait, Done>;

// Of a program that tells its workers nothing beforehand.
struct NoJob {
  template <class Archive>
  void serialize(Archive& /*archive*/) {}
};

using runtime::LaneTable;
LaneTable no_lanes(int workers);
// [u][v]: how messages from worker u to worker v cross; empty where there is no channel.
using TransportTable = std::vector<std::vector<std::optional<runtime::TransportKind>>>;

class Tables;

template <class M>
class SchedulerHalf {
 public:
  using Messages = M;
  using Job = typename M::Job;
  using Task = TaskFor<typename M::Task>;
  using Result = ResultFrom<typename M::Result>;
  using Decision = schedmp::Decision<typename M::Task>;

  virtual ~SchedulerHalf() = default;
  // That its workers' half is known by (ProgramFactories).
  virtual std::string name() const = 0;

  // What a worker is told before its first task.
  virtual Job job(int /*worker*/) { return {}; }
  virtual LaneTable lanes(int workers) const { return no_lanes(workers); }
  // What the channels of lanes() go over, before any worker gets a job: who finds that they take
  // too much memory throws.
  virtual void channels_go_over(const TransportTable& /*transports*/) {}

  // What workers share (schedmp/tables/tables.h); their halves have it by tables(). Asked for once,
  // before the jobs.
  virtual std::vector<TableSpec> tables(int /*workers*/) { return {}; }

  // How many rounds may be under way: schedule() sees the results of all rounds up to that many
  // before, and of none after unless it waited for them.
  virtual int depth() const { return 1; }
  // Whether results are folded in as they come. Else rounds are, in their order, each when all its
  // results are in: the same seed gives the same bits.
  virtual bool unordered() const { return false; }

  // Asked for the tasks of this round until it has some; where it waits, once more after results
  // were folded in.
  virtual Decision schedule(int64_t round) = 0;
  // The results of a round in the order of its tasks; if unordered, one of them.
  virtual void aggregate(int64_t round, std::vector<Result> results) = 0;

  // Where on the scheduler's host its workers leave files, by their stores (runtime/store.h).
  virtual std::vector<std::filesystem::path> folders() const { return {}; }

  // Behind the loss of a worker all tasks since the last commit (worker_tasks.h) are done again, in
  // each worker's order, by new halves: what update() does beside its answer is done twice. Of such
  // a task: throws where its result differs from the first in what must not.
  virtual void compare(int64_t /*round*/, const Result& /*first*/, const Result& /*again*/) {}

  // Whether it keeps snapshots: in both halves, or in none.
  virtual bool keeps_state() const { return false; }
  // Whether what workers hold before this round is all in their snapshots. It is not where a round
  // begins what a later one ends. Of the round that was scheduled last, and of the next.
  virtual bool rests_before(int64_t /*round*/) const { return true; }
  // Whether any number of workers, whatever their jobs, can go on from them (DividedState).
  virtual bool goes_on_anywhere() const { return false; }
  // How far it is before the next round, as people count for snapshots; it never falls.
  virtual int64_t progress(int64_t next_round) const { return next_round; }
  // With no task under way: all that later rounds depend on and a new half of the same job does not
  // have (snapshots.h).
  virtual std::string snapshot() { throw_no_snapshot(); }
  virtual void restore(std::string_view /*snapshot*/) { throw_no_snapshot(); }
};

template <class M>
class WorkerHalf {
 public:
  using Messages = M;
  using Job = typename M::Job;
  using Task = typename M::Task;
  using Result = typename M::Result;

  virtual ~WorkerHalf() = default;
  // Once; channels are open. `workplace` outlives this, `job` does not. What it fills of its own
  // rows of tables is what they begin with.
  virtual void start(runtime::Workplace& /*workplace*/, const Job& /*job*/) {}
  virtual Result update(const Task& task) = 0;

  // As those of the scheduler's half; restore() comes behind start().
  virtual std::string snapshot() { throw_no_snapshot(); }
  virtual void restore(std::string_view /*snapshot*/) { throw_no_snapshot(); }
  // Where not null, this holds the state in place of the two, from start() on, with what the half
  // serves of tables (Tables::stand_still()).
  virtual DividedState* divided_state() { return nullptr; }

  // Those that the scheduler's half declares, from start() on.
  void use_tables(Tables& tables) { tables_ = &tables; }
  Tables& tables() { return *tables_; }

 private:
  Tables* tables_ = nullptr;
};

// Workers' halves by name: a worker makes its own from here. worker_half() of encoded_program.h
// makes one of a WorkerHalf.
using ProgramFactories = std::map<std::string, std::function<std::unique_ptr<runtime::Handler>()>>;

runtime::HandlerFactory handlers_of(const ProgramFactories& programs);

}  // namespace kerf::schedmp
