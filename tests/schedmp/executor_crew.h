// A plan's workers as threads of this process that run one step of a schedule each: the executor as
// a run has it, without a scheduler.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/plan.h"
#include "runtime/activity.h"
#include "runtime/channel.h"
#include "runtime/trace.h"
#include "schedmp/safetensors.h"
#include "schedmp/verify.h"
#include "tests/support/async_world.h"

namespace kerf::tests {

struct CrewStep {
  double loss = 0;                                // of the whole step
  int reporter = -1;                              // the worker that said so
  std::vector<schedmp::NamedTensor> weights;      // after it, whole
  std::vector<partitioner::Traffic> traffic;      // by route, as the senders counted
  std::vector<int64_t> peak_bytes;                // by worker
  std::vector<std::vector<runtime::Span>> spans;  // likewise, where it is traced
  std::vector<size_t> waits;                      // by worker, in a world
  bool dropped_needless = false;  // the one that was dropped, or there was none such
};

// A wait of the step that orders nothing (AsyncWorld::drop_wait()): from 0, for each worker.
struct DroppedWait {
  int worker = 0;
  size_t wait = 0;
};

struct StepOptions {
  bool normal = false;  // rows are normal numbers; else small whole ones
  runtime::TransportKind transport = runtime::TransportKind::kInproc;
  std::shared_ptr<AsyncWorld> world = {};  // of the devices; null: each has a `device`
  std::string device = "cpu";
  bool trace = false;
  // Called wherever a worker's stream reads rows, with what that worker says it does.
  std::function<void(const runtime::ActivityReport&)> reading = {};
  std::optional<DroppedWait> dropped = {};
};

// With as many slots as `setting` says beyond what `verdict` found that receivers hold. Weights are
// read from `weights`. Throws what a worker threw first.
CrewStep run_crew(const partitioner::Model& model, const partitioner::Plan& plan,
                  const schedmp::Schedule& schedule, const schedmp::Verdict& verdict,
                  const partitioner::Setting& setting, const std::filesystem::path& weights,
                  const StepOptions& options);

}  // namespace kerf::tests
