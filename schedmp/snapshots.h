// Snapshots: what the halves of a program and its tables hold between two rounds, as files, from
// which a later run goes on: to the same bits, but for what stale reads of tables decide.
//
//   FOLDER/snapshot.json     which of the folders beside it counts, the sums of its files, and of
//                            which run it is; replaced atomically: there is always a whole one
//   FOLDER/round-1200/       scheduler, worker-0, worker-1, ...; each writes its own
//
// One is taken with no task under way: the loop schedules nothing before the last round is folded
// in. By rounds, not seconds, two runs take theirs at the same places. Workers write where the
// scheduler says, so all see one file system. Belongs to the loop's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/crew.h"
#include "runtime/json.h"
#include "runtime/time.h"
#include "schedmp/encoded_program.h"

namespace kerf::schedmp {

// Names and values that two runs share of which one goes on with the other: flags, what files are
// like. What the workers are told beforehand is compared in any case.
using RunTold = std::map<std::string, std::string>;

struct SnapshotOptions {
  std::filesystem::path folder = {};  // empty: none is taken
  int64_t every_rounds = 0;           // 0: not by rounds
  double every_seconds = 0;           // 0: not by seconds
  std::filesystem::path resume = {};  // of the run that this one goes on with; empty: it is new
  RunTold run = {};
};

class Snapshots {
 public:
  // `program` and `crew`, which was started with `jobs`, outlive this. Throws Error{kUsage} where
  // some are to be taken and the program keeps none, or the folder has one of another run.
  Snapshots(SnapshotOptions options, EncodedProgram& program, runtime::Crew& crew,
            const std::vector<std::string>& jobs);

  // Gives all halves what they held, where the run is to go on; the next round. Throws
  // Error{kUsage} that names the file where it is of another run or not what was written.
  int64_t resume();

  // By which each worker goes on from the last that was taken or resumed; none: there is none.
  const std::vector<std::string>& restore_requests() const { return restore_requests_; }

  bool is_due(int64_t next_round) const;
  // No task is under way.
  void take(int64_t next_round);

 private:
  void expect_folder() const;
  void expect_this_run(const Json& manifest, const std::string& where) const;
  std::vector<std::string> ask(const std::vector<std::string>& requests);

  SnapshotOptions options_;
  EncodedProgram& program_;
  runtime::Crew& crew_;
  uint32_t job_ = 0;  // a sum of what the workers were told beforehand
  std::vector<std::string> restore_requests_;
  int64_t last_round_ = 0;
  std::string last_name_;  // the folder that the manifest names
  runtime::Clock::time_point last_ = runtime::Clock::now();
};

}  // namespace kerf::schedmp
