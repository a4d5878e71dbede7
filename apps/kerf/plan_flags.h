// The flags that say what to cut, how, and for which step: shared by plan, train, eval and
// schedule.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "apps/kerf/crew_flags.h"
#include "partitioner/cut.h"
#include "schedmp/schedule.h"

namespace kerf::apps {

inline constexpr int kMostMicroBatches = 65'536;

// As given; what was not given is empty, so that a plan file may say it instead.
struct PlanFlags {
  std::string model = "lenet5";
  std::string sizes;
  std::optional<std::string> cut;
  std::optional<int> workers;
  int default_workers = 3;  // where no flag and no file says how many
  std::optional<int> stages;
  std::optional<int64_t> batch;
  std::optional<int> micro_batches;
  std::optional<std::string> schedule;  // a name or a file
  std::optional<int64_t> memory;
  std::optional<std::string> objective;
  std::string shares;
  int slots = 2;
  std::string transport = "shm";
  int threads = 1;  // per worker
  double momentum = 0.9;

  std::string source() const;  // of the model
  partitioner::Setting setting() const;
  // Plan for what that crew will be: its transport and threads.
  void run_on(const CrewFlags& crew);
};

void add_model_flags(CLI::App& command, PlanFlags& flags);
void add_cut_flags(CLI::App& command, PlanFlags& flags);
// For commands that only foresee a run; those that run add_crew_flags().
void add_setting_flags(CLI::App& command, PlanFlags& flags);

struct Planned {
  partitioner::Model model;
  partitioner::Plan plan;
};

// Makes the plan that the flags ask for. Throws Error{kUsage} or Error{kInfeasible}.
Planned make_plan_of(const PlanFlags& flags);
// Reads a plan; throws Error{kUsage} where a flag contradicts it.
Planned read_plan_of(const PlanFlags& flags, const std::string& file);

// The schedule that the flags name, or else the plan, for the plan's stages.
schedmp::Schedule schedule_of(const PlanFlags& flags, const partitioner::Plan& plan);
// That, after a look at its text: throws Error{kUsage} that names the file where one from a file is
// out of order or is for other workers, groups or micro-batches than the plan's.
schedmp::Schedule fitting_schedule_of(const PlanFlags& flags, const partitioner::Plan& plan);
// A built-in schedule or one from a file. Throws Error{kUsage} where it is neither, and where
// --workers or --micro-batches contradict a file's.
schedmp::Schedule find_schedule(const PlanFlags& flags, const std::string& name,
                                const std::vector<std::vector<int>>& groups, int micro_batches);

}  // namespace kerf::apps
