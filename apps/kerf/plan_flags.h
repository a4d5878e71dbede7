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

// As given; what was not given is empty, so that a plan file may say it instead.
struct PlanFlags {
  std::optional<std::string> model;
  std::string sizes;
  std::optional<std::string> cut;
  std::optional<int> workers;
  int default_workers = 3;  // where no flag and no file says how many
  std::optional<int> stages;
  std::optional<int64_t> batch;
  std::optional<int> micro_batches;
  std::optional<std::string> schedule;  // a name or a file
  std::string default_schedule = "1f1b";
  std::optional<int64_t> memory;
  std::optional<std::string> objective;
  std::string shares;
  std::optional<int> slots;
  std::optional<std::string> transport;
  std::optional<int> threads;                // per worker
  std::vector<runtime::DeviceKind> devices;  // of the workers in turn; empty: CPUs
  std::optional<double> momentum;            // above 0, the optimizer has a state

  std::string source() const;  // of the model
  // Plan for what that crew will be: its transport, threads and devices.
  void run_on(const CrewFlags& crew);
};

inline constexpr double kDefaultMomentum = 0.9;
inline constexpr const char* kPlanFile = "plan.json";  // of a run's folder

void add_model_flags(CLI::App& command, PlanFlags& flags);
CLI::Option* add_sizes_flag(CLI::App& command, PlanFlags& flags);
void add_cut_flags(CLI::App& command, PlanFlags& flags);
// Those of them that a schedule by itself has a use for: how many workers and micro-batches.
void add_count_flags(CLI::App& command, PlanFlags& flags);
// And those that it has none for.
std::vector<CLI::Option*> add_division_flags(CLI::App& command, PlanFlags& flags);
CLI::Option* add_plan_file_flag(CLI::App& command, std::string& file);
// For commands that only foresee a run; those that run add_crew_flags().
std::vector<CLI::Option*> add_setting_flags(CLI::App& command, PlanFlags& flags);

// A plan, and how it is to be run: as the flags say, else as its request does.
struct Planned {
  std::string source;  // of the model
  partitioner::Model model;
  partitioner::Plan plan;  // its schedule: a name, or a file as this process finds it
  partitioner::Setting setting;
  std::optional<int64_t> memory;  // cap per worker
  double momentum = kDefaultMomentum;
  bool other_states = false;  // of the optimizer than the plan was made for: --momentum says so
};

// Makes the plan that the flags ask for. Throws Error{kUsage} or Error{kInfeasible}.
Planned make_plan_of(const PlanFlags& flags);
// Reads a plan, or that of a run's folder; throws Error{kUsage} where a flag contradicts it. What a
// flag says of schedule, slots, transport, threads and momentum goes before what the plan's request
// says, and what the plan predicts follows.
Planned read_plan_of(const PlanFlags& flags, const std::string& file_or_folder);
// One of the two: `file` empty, or not.
Planned planned_by(const PlanFlags& flags, const std::string& file);
// Its text for `file`: a schedule from a file is named relative to the plan.
std::string plan_text_for(const Planned& planned, const std::string& file,
                          partitioner::PlanText form);

// The schedule that the flags name, or else the plan, for the plan's stages.
schedmp::Schedule schedule_of(const PlanFlags& flags, const partitioner::Plan& plan);
// That, after a look at its text: throws Error{kUsage} that names the file where one from a file is
// out of order or is for other workers, groups or micro-batches than the plan's.
schedmp::Schedule fitting_schedule_of(const PlanFlags& flags, const partitioner::Plan& plan);
bool is_built_in(const std::string& schedule);
// A built-in schedule or one from a file. Throws Error{kUsage} where it is neither, and where
// --workers or --micro-batches contradict a file's.
schedmp::Schedule find_schedule(const PlanFlags& flags, const std::string& name,
                                const std::vector<std::vector<int>>& groups, int micro_batches);

}  // namespace kerf::apps
