// Which workers of a training take longer than they did, beside the others: for people, once for
// each change. Nothing comes of it; with --rebalance a run plans anew instead (kerf/rebalance.h),
// and measures by itself.
//
// Windows of the first steps are what the others are compared with (worker_paces.h). Plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/report/run_record.h"
#include "runtime/crew.h"
#include "schedmp/training/training.h"
#include "schedmp/training/worker_paces.h"

namespace kerf::apps {

class SlowWorkers {
 public:
  // Steps of replicas with tables, and evaluations of L-BFGS, are of no even work.
  static bool can_tell(const schedmp::TrainingOptions& options);

  // Of steps of `batch` rows; the first `traced_steps` warm up, and are not looked at.
  SlowWorkers(int workers, int64_t batch, int64_t traced_steps);

  // Looks no more where one is on a GPU: its host does not know what of a step that computes.
  void are_here(std::span<const runtime::WorkerInfo> workers);
  // See schedmp::TrainingObserver; a line for each worker that has become slow, or is no longer.
  std::vector<std::string> computed(const schedmp::StepRecord& step,
                                    std::span<const int64_t> compute_ns, int64_t now_ns);

  // In the order in which they were seen.
  const std::vector<RunRecord::Slow>& seen() const { return seen_; }

 private:
  std::string look_at(int worker, double slowness, int64_t step);

  const int64_t batch_;
  const int64_t traced_steps_;
  bool off_ = false;
  int64_t steps_ = 0;
  schedmp::WorkerPaces paces_;
  std::vector<std::optional<size_t>> now_;  // by worker, its place in seen_ while it is slow
  std::vector<RunRecord::Slow> seen_;
};

}  // namespace kerf::apps
