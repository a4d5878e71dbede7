// Snapshots: what the halves of a program hold between two rounds, as files, from which a later run
// goes on to the same bits.
//
//   FOLDER/snapshot.json     which of the folders beside it counts, and the sums of its files;
//                            replaced atomically, so that there is always a whole one
//   FOLDER/round-1200/       scheduler, worker-0, worker-1, ...; each writes its own
//
// One is taken with no task under way: the loop schedules nothing before the last round is folded
// in. By rounds, not seconds, two runs take theirs at the same places. Workers write where the
// scheduler says, so all see one file system. Belongs to the loop's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/crew.h"
#include "runtime/time.h"
#include "schedmp/encoded_program.h"

namespace kerf::schedmp {

struct SnapshotOptions {
  std::filesystem::path folder = {};  // empty: none is taken
  int64_t every_rounds = 0;           // 0: not by rounds
  double every_seconds = 0;           // 0: not by seconds
  std::filesystem::path resume =
      {};  // the folder of a run that this one goes on with; empty: it is new
};

class Snapshots {
 public:
  // `program` and `crew`, which was started with `jobs`, outlive this. Throws Error{kUsage} where
  // some are to be taken and the program keeps none.
  Snapshots(SnapshotOptions options, EncodedProgram& program, runtime::Crew& crew,
            const std::vector<std::string>& jobs);

  // Gives all halves what they held, where the run is to go on; the next round. Throws
  // Error{kUsage} that names the file where it is of another program, another job or so many other
  // workers, or not what was written.
  int64_t resume();

  bool is_due(int64_t next_round) const;
  // No task is under way.
  void take(int64_t next_round);

 private:
  std::vector<std::string> ask(const std::vector<std::string>& requests);

  SnapshotOptions options_;
  EncodedProgram& program_;
  runtime::Crew& crew_;
  uint32_t job_ = 0;  // a sum of what the workers were told beforehand
  int64_t last_round_ = 0;
  runtime::Clock::time_point last_ = runtime::Clock::now();
};

}  // namespace kerf::schedmp
