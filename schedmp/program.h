// Programs: what a user writes. The STRADS primitives (Kim et al., EuroSys 2016).
//
//   schedule()   on the scheduler: picks what each worker works on in the next round
//   update()     on a worker: does it
//   aggregate()  on the scheduler: folds the round's results in
//
// One class holds the three. The scheduler has one instance, each worker another, made by the
// factory under the same name; start() tells a worker's instance its job. Payloads are bytes: use
// runtime/wire.h's encode and decode. schedule() runs ahead of the workers by LoopOptions::depth
// rounds, so it may see results of rounds only up to that many before.
//
// Threads: the scheduler's instance is called by the loop's thread, a worker's by its compute
// thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/channel.h"
#include "runtime/worker.h"

namespace kerf::schedmp {

struct Task {
  int worker = 0;
  std::string payload;
};

struct Result {
  int worker = 0;
  std::string payload;
};

// lanes[u][v]: of the channel from worker u to worker v; empty where they exchange no tensors.
using LaneTable = std::vector<std::vector<std::vector<runtime::Lane>>>;
// [u][v]: how messages from worker u to worker v cross; empty where there is no channel.
using TransportTable = std::vector<std::vector<std::optional<runtime::TransportKind>>>;

class Program {
 public:
  virtual ~Program() = default;
  virtual std::string name() const = 0;

  // On the scheduler.
  virtual std::string job(int /*worker*/) { return {}; }
  virtual LaneTable lanes(int workers) const;  // none unless overridden
  // What the channels of lanes() go over, before any worker gets a job: who finds that they take
  // too much memory throws.
  virtual void channels_go_over(const TransportTable& /*transports*/) {}
  // The tasks of the next round, at most one per worker (more is a bug, and throws); empty
  // optional: no more rounds. A task and a result are each at most 1 MiB.
  virtual std::optional<std::vector<Task>> schedule(int64_t round) = 0;
  // Called once per round, in order of rounds, with the results in order of workers.
  virtual void aggregate(int64_t round, std::vector<Result> results) = 0;

  // On a worker.
  virtual void start(runtime::Workplace& /*workplace*/, std::string_view /*job*/) {}
  virtual std::string update(std::string_view task) = 0;
};

// Programs by name; a worker makes its instance from here.
using ProgramFactories = std::map<std::string, std::function<std::unique_ptr<Program>()>>;

runtime::HandlerFactory handlers_of(const ProgramFactories& programs);

}  // namespace kerf::schedmp
