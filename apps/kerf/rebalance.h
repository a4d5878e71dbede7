// kerf train --rebalance: whether a run should go on by a plan for the speeds that its workers turn
// out to have.
//
// The run measures itself: what operators take, in its traced steps, what a step takes each worker
// in a window behind these, and then how many times as long it takes each, window by window
// (schedmp/training/worker_paces.h). Where that is another than when it was last looked at, a plan
// is made for it by the flags of the run, in a thread of its own, and proved. That takes cores from
// workers of this host: what is measured meanwhile does not count. The next windows decide: by the
// speeds of these a step of the new plan is simulated beside one of the plan that there is, in that
// other thread too, so that the loop never waits for it. Before anybody is let go, all is written
// that the next process reads. Belongs to the scheduler's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "apps/kerf/planned.h"
#include "apps/kerf/replan.h"
#include "apps/main/crew_flags.h"
#include "apps/rebalance_files.h"
#include "partitioner/profile.h"
#include "runtime/crew.h"
#include "schedmp/training/training.h"
#include "schedmp/training/worker_paces.h"

namespace kerf::apps {

class Rebalance {
 public:
  // A run of `planned`, which `flags` made, by `schedule`. `before` is completed. All that is given
  // by reference outlives this.
  struct Run {
    const PlanFlags& flags;
    const CrewFlags& crew;
    const Planned& planned;
    const schedmp::Schedule& schedule;
    const schedmp::TrainingOptions& options;
    Rebalanced& before;
    std::filesystem::path folder;  // of what the next process reads
    int64_t began_ns = 0;          // the process
  };
  explicit Rebalance(Run run);
  // Stops the search for a plan.
  ~Rebalance() = default;
  Rebalance(const Rebalance&) = delete;
  Rebalance& operator=(const Rebalance&) = delete;

  // See CrewNeeds. Throws Error{kUsage} where one is on a GPU and the run has just begun; a process
  // that goes on says so, and plans no more.
  void are_here(std::span<const runtime::WorkerInfo> workers, double waited_seconds);
  // Of each step; see schedmp::TrainingObserver.
  void computed(const schedmp::Training& training, const schedmp::StepRecord& step,
                std::span<const int64_t> compute_ns);
  // For LoopOptions.
  bool leaves();

  // A plan that the run is to go on by: what the next process is told, and in a line a person.
  struct Agreed {
    NextFlags flags;
    std::string told;
  };
  const std::optional<Agreed>& agreed() const { return agreed_; }

 private:
  // What a plan is made by.
  struct Measured {
    Json profile_file;
    partitioner::Profile profile;
    partitioner::Capacities at_first;  // in the first window
    partitioner::Capacities now;
  };
  struct Proposal {
    Measured measured;
    std::optional<Planned> plan;
    schedmp::Schedule schedule = {};
    std::vector<MovedWeight> moved = {};
    std::string failure = {};  // why there is no plan
  };
  // By the last windows.
  struct Outlook {
    std::vector<double> slowness;  // by worker, beside its planned speed
    double before_seconds = 0;     // of a step, by the plan that there is
    double after_seconds = 0;      // by the other one
  };
  struct Weighed {
    Proposal proposal;
    Outlook outlook = {};
    std::string failure = {};  // why there is no outlook
  };

  void note_first_step(int64_t now_ns);
  void weigh(const schedmp::Training& training, int64_t now_ns);
  Measured measured(const schedmp::Training& training, const std::vector<double>& slowness) const;
  Proposal propose(const std::stop_token& stop, Measured measured) const;
  void plan_for(const std::stop_token& stop, Proposal& proposal) const;
  void prove(const Planned& plan, const schedmp::Schedule& schedule) const;
  template <class Result, class Do>
  std::future<Result> beside_the_loop(Do act);
  void look_at_search(int64_t now_ns);
  void simulate();
  void look_at_simulation(const schedmp::StepRecord& step, int64_t steps_left, int64_t now_ns);
  void decide(const Weighed& weighed, int64_t steps_done, int64_t steps_left, int64_t now_ns);
  Outlook outlook(const std::stop_token& stop, const Proposal& proposal,
                  const std::vector<double>& slowness) const;
  void agree(const Proposal& proposal, const Outlook& outlook, int64_t step, int64_t now_ns);
  void put_off(int64_t now_ns, const std::string& why);

  const Run run_;
  double waited_ = 0;  // seconds, for people
  double cost_ = 0;    // of a change, in seconds
  bool off_ = false;
  int64_t steps_ = 0;  // that this process saw
  schedmp::WorkerPaces paces_;
  std::vector<double> weighed_;      // slowness that was looked at last; empty: none was
  std::optional<int64_t> tried_ns_;  // the last change
  int64_t search_ns_ = 0;            // the last search began, or ended
  double search_seconds_ = 0;        // that it took
  std::optional<Proposal> found_;    // to be simulated by what is measured behind its search
  std::optional<Agreed> agreed_;
  bool leaving_ = false;
  std::future<Proposal> search_;
  std::future<Weighed> simulation_;
  std::jthread searcher_;  // the last: it reads the others
};

}  // namespace kerf::apps
