// Snapshots: what the halves of a program and its tables hold between two rounds, as checkpoints
// (checkpoint_folder.h), from which a later run goes on: to the same bits, but for what stale reads
// of tables decide.
//
// One is taken with no task under way: the loop schedules nothing before the last round is folded
// in. By rounds or steps, not seconds, two runs take theirs at the same places. They lie on the
// scheduler's host, where workers write by their stores (runtime/store.h). Those before go when a
// new one is whole. One that cannot be written, to a disk that is full, is told of, and the run
// goes on. Between those on disk some are taken in memory (kept_memory.h), where that changes no
// bits. Belongs to the loop's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/crew.h"
#include "runtime/time.h"
#include "schedmp/checkpoint_folder.h"
#include "schedmp/encoded_program.h"
#include "schedmp/folder_lock.h"
#include "schedmp/kept_memory.h"

namespace kerf::schedmp {

struct SnapshotOptions {
  std::filesystem::path folder = {};  // empty: none is taken
  // Of that folder, from who has it for longer than the loop; null: the loop takes it.
  std::shared_ptr<const FolderLock> lock = {};
  int64_t every = 0;         // rounds, or steps of training (progress()); 0: not by those
  double every_seconds = 0;  // 0: not by seconds
  // A run that is interrupted before that leaves none, but one that went on from memory, which is
  // gone soon; infinity: nor does that one.
  double worth_seconds = 0;
  int64_t keep = 1;  // as many are there, once they were taken
  // Of a worker's files each has as many, but for its header and a row that is longer.
  int64_t most_bytes = int64_t{1} << 30;
  // Some are taken in memory as well; null: none are. Ended by who made it.
  std::shared_ptr<KeptMemory> memory = {};
  std::filesystem::path resume = {};  // of the run that this one goes on with; empty: it is new
  // Of that run in memory, until there is something newer; null: nothing.
  std::shared_ptr<LeftMemory> left = {};
  RunTold run = {};  // compared with that run's
  // Told of snapshots that could not be taken, or not be resumed.
  std::function<void(const std::string&)> tell = {};
};

// What became of those that were due.
struct SnapshotCounts {
  int64_t taken = 0;
  int64_t failed = 0;
  int64_t bytes = 0;   // of files that were taken, but for manifests
  double seconds = 0;  // that all of them took
  // Likewise of those in memory that outlives the scheduler.
  int64_t in_memory = 0;
  int64_t in_memory_bytes = 0;
  double in_memory_seconds = 0;
};

class Snapshots {
 public:
  // `program` and `crew`, which is started with `jobs`, outlive this. Throws Error{kUsage} where
  // some are to be taken and the program keeps none, or the folder has one of another run, or
  // another run writes into it now.
  Snapshots(SnapshotOptions options, EncodedProgram& program, runtime::Crew& crew,
            const std::vector<std::string>& jobs);

  // Gives the scheduler's half what it held, where the run is to go on, from the newest that is
  // whole, on disk or in memory; the next round. Throws Error{kUsage} that names the file where it
  // is of another run, or none is whole.
  int64_t resume();
  // Gives it to workers' halves, which have begun.
  void restore_workers();

  // By which each worker goes on from the last that was taken or resumed; none: there is none.
  const std::vector<std::string>& restore_requests() const { return restore_requests_; }

  bool is_due(int64_t next_round) const;
  // No task is under way. Whether it is there.
  bool take(int64_t next_round);
  // The same in memory, of a loop that `waits_anyway` for each round or not,
  bool is_due_in_memory(int64_t next_round, bool waits_anyway) const;
  bool take_in_memory(int64_t next_round);
  // and, once there was one, when the next is due.
  runtime::Clock::time_point in_memory_until() const;
  const SnapshotCounts& counts() const { return counts_; }

  // Of a run that was asked to end: whether it is to leave one,
  bool is_worth_one() const;
  // tells that it will,
  void announce_end() const;
  // whether it may stop before this round and come to the same bits all the same: wherever it
  // `waits_anyway` for each round, or no round depends on which results are in, or it stops to keep
  // one,
  bool may_be_last(int64_t next_round, bool waits_anyway) const;
  // whether the last is of another round,
  bool has_news(int64_t next_round) const;
  // whether that is there,
  bool is_kept(int64_t next_round) const;
  // and how to go on; empty: there is none to go on from.
  std::string way_on() const;

 private:
  void expect_folder();
  bool may_stop(int64_t next_round, bool waits_anyway) const;
  void let_go_of_left();
  Checkpoint manifest_of(int64_t next_round) const;
  // Why it could not be written; empty: it is there.
  std::string write(const std::filesystem::path& path, Checkpoint manifest);
  std::filesystem::path newest_whole(const std::filesystem::path& folder) const;
  void expect_this_run(const Checkpoint& manifest, const std::string& where) const;
  void go_on_from(const std::filesystem::path& path, const Checkpoint& manifest);
  void fail(const std::string& why);
  void tell(const std::string& what) const;
  std::vector<std::string> ask(const std::vector<std::string>& requests);

  SnapshotOptions options_;
  EncodedProgram& program_;
  runtime::Crew& crew_;
  uint32_t job_ = 0;  // a sum of what the workers were told beforehand
  std::vector<std::string> restore_requests_;
  SnapshotCounts counts_;
  int64_t written_ = 0;           // bytes of the last
  std::string told_failure_;      // since the last that was written
  int64_t last_number_ = 0;       // due at last
  int64_t last_in_memory_ = 0;    // likewise
  bool forgot_ = false;           // what of a run before is gone from memory
  std::filesystem::path newest_;  // that was taken or resumed, on disk
  const runtime::Clock::time_point begin_ = runtime::Clock::now();
  runtime::Clock::time_point last_ = runtime::Clock::now();
};

}  // namespace kerf::schedmp
