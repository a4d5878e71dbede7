// kerf train --rebalance: whether a run should go on by a plan for the speeds that its workers turn
// out to have.
//
// The run measures itself: what operators take, in its traced steps, what a step takes each worker
// in a window behind these, and then how many times as long it takes each, window by window
// (schedmp/training/worker_paces.h). Where that is another than when it was last looked at, a plan
// is made for it by the flags of the run, in a thread of its own, and its step is simulated beside
// that of the plan that there is. Belongs to the scheduler's thread.
#pragma once

#include <filesystem>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/kerf/planned.h"
#include "apps/kerf/replan.h"
#include "apps/report/run_record.h"
#include "partitioner/profile.h"
#include "runtime/crew.h"
#include "schedmp/training/training.h"
#include "schedmp/training/worker_paces.h"

namespace kerf::apps {

// What a process that goes on knows of those before it.
struct Rebalanced {
  std::vector<RunRecord::Rebalance> all;  // of the run; the last is the one that led to it
  std::vector<runtime::Returning> returning;
  int64_t left_ns = 0;  // when that was decided, by the clock of this host
};
// Throws Error{kUsage} that names the file.
Rebalanced read_rebalanced(const std::string& file);

// A plan that the run is to go on by.
struct Agreed {
  Rebalanced rebalanced;  // this change the last; nobody returns yet
  Json profile;           // files, of --profile and --devices
  Json devices;
  std::string told;  // to a person, in a line
};
// Writes what that process reads into `folder`, and says the flags that it has beside those of this
// one. Throws Error{kUnavailable}.
std::vector<std::string> flags_to_go_on(const std::filesystem::path& folder, const Agreed& agreed,
                                        const std::vector<runtime::Returning>& returning);
// The same of a run that goes on with so many of its workers, as if all of them were alike: who is
// not is measured anew.
std::vector<std::string> flags_of_fewer(const std::filesystem::path& folder, int workers,
                                        Rebalanced rebalanced);

class Rebalance {
 public:
  // `flags` are those that `planned` was made by, which is run by `schedule`. It outlives this, and
  // so does `before`, which is completed. The process began at `began_ns`.
  Rebalance(const PlanFlags& flags, const Planned& planned, schedmp::Schedule schedule,
            int64_t traced_steps, Rebalanced& before, int64_t began_ns);
  // Waits for a plan that is being made.
  ~Rebalance() = default;
  Rebalance(const Rebalance&) = delete;
  Rebalance& operator=(const Rebalance&) = delete;

  // Of each step; see schedmp::TrainingObserver.
  void computed(const schedmp::Training& training, const schedmp::StepRecord& step,
                std::span<const int64_t> compute_ns);
  const std::optional<Agreed>& agreed() const { return agreed_; }

 private:
  // What a plan is made for, and what of that is told.
  struct Measured {
    std::vector<double> slowness;  // by worker
    Json profile_file;
    partitioner::Profile profile;
    partitioner::Capacities capacities;
  };
  struct Proposal {
    Measured measured;
    double before_seconds = 0;  // of a step, by the plan that there is
    double after_seconds = 0;   // by the other one
    std::vector<MovedWeight> moved;
    std::string failure;  // why there is no other; empty: there is
  };

  void note_first_step(int64_t now_ns);
  void weigh(const schedmp::Training& training, int64_t now_ns);
  Measured measured(const schedmp::Training& training, const std::vector<double>& slowness) const;
  Proposal propose(Measured measured) const;
  void decide(const Proposal& proposal, int64_t step, int64_t steps_left, int64_t now_ns);
  void agree(const Proposal& proposal, int64_t step, int64_t now_ns);

  const PlanFlags flags_;
  const Planned& planned_;
  const schedmp::Schedule schedule_;
  const int64_t traced_steps_;
  const int64_t began_ns_;
  Rebalanced& before_;
  double cost_ = 0;    // of a change, in seconds
  int64_t steps_ = 0;  // that this process saw
  schedmp::WorkerPaces paces_;
  std::vector<double> weighed_;  // slowness that was looked at last; empty: none was
  std::optional<Agreed> agreed_;
  std::future<Proposal> proposal_;  // the last: what is under way reads the others
};

}  // namespace kerf::apps
