// The scheduler's loop: the one central process that drives a program.
//
//   round   0        1        2        3
//           schedule schedule schedule            depth 3: three rounds under way
//           -------> -------> ------->
//           <------- results
//           aggregate         schedule
//
// What rounds have for a worker goes to it in one message; results come back in batches. The loop
// sleeps while it waits, unless answers come at once, and never sits between two workers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/crew.h"
#include "runtime/error.h"
#include "runtime/interrupt.h"
#include "schedmp/encoded_program.h"
#include "schedmp/snapshots.h"
#include "schedmp/worker_tasks.h"

namespace kerf::schedmp {

struct LoopOptions {
  std::optional<int> depth = {};   // rounds under way, in place of what the program declares
  int batch = 1;                   // rounds sent together where the program has them ready
  SnapshotOptions snapshots = {};  // to keep, and to go on from
  RestartOptions restarts = {};    // where a worker is lost
  // Where snapshots are kept, one that is asked for is heeded: behind one more of them.
  std::shared_ptr<runtime::Interrupt> interrupt = {};
  // Looked at between rounds. Once it says so, the run ends where it may, behind a snapshot, as
  // Left. It is asked again only where that cannot be written: the run goes on. May be empty.
  std::function<bool()> leaves = {};
};

// LoopOptions::leaves said so: what was done is in the newest snapshot, and the crew has no tasks.
class Left : public Error {
 public:
  explicit Left(std::string way_on) : Error(ErrorCode::kInterrupted, std::move(way_on)) {}
};

struct LoopReport {
  int64_t rounds = 0;  // those before a snapshot that it went on from among them
  int64_t tasks = 0;
  double seconds = 0;
  int64_t restarts = 0;                   // of all workers, where one was lost
  std::vector<Recovery> recoveries = {};  // those, in order
  int64_t repeated_tasks = 0;             // behind those
  std::vector<int64_t> kept_bytes = {};   // by worker, at the last commit; 0: there was none
  CommitCounts commits;
  SnapshotCounts snapshots;
  // Restarts, commits and checkpoints, for a trace, by the scheduler's clock; and how many were
  // left out for want of room.
  std::vector<runtime::Span> spans = {};
  int64_t spans_lost = 0;
};

// Starts the program's workers, runs it to its end, and leaves the crew ready to stop. Throws what
// ended the run otherwise.
LoopReport run(EncodedProgram& program, runtime::Crew& crew, const LoopOptions& options = {});
template <class Messages>
LoopReport run(SchedulerHalf<Messages>& program, runtime::Crew& crew,
               const LoopOptions& options = {}) {
  Encoded<Messages> encoded(program);
  return run(encoded, crew, options);
}

// Serves one run as a worker and returns the exit code; an error goes to standard error in one
// line.
int serve(const runtime::WorkerOptions& options, const ProgramFactories& programs);
// A process that was started as a worker ("PROGRAM worker --connect ADDRESS ...") serves and
// returns its exit code; any other gets an empty optional. A user's own executable calls this first
// in main(); the kerf command parses its own flags and calls serve().
std::optional<int> serve_if_worker(int argc, char** argv, const ProgramFactories& programs);
// What members of a run must share: build of this executable, instruction set, library versions.
runtime::Identity identity();

}  // namespace kerf::schedmp
