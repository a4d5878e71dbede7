// The flags that say what to cut, how, and for which step: shared by all commands that make plans
// or read them.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/kerf/model_flags.h"
#include "apps/kerf/steering_flags.h"
#include "apps/main/crew_flags.h"
#include "runtime/device.h"

namespace kerf::apps {

// What --cut says for the automatic cut, which is none of the table's (partitioner/choose_plan.h).
inline constexpr const char* kAutoCut = "auto";
// What --optimizer says for L-BFGS, which is none of ops::Optimizer's.
inline constexpr const char* kLbfgs = "lbfgs";

// As given; what was not given is empty, so that a plan file may say it instead.
struct PlanFlags : ModelFlags {
  const CLI::App* command = nullptr;  // that they were given to (flag_rules.h); null: to none
  std::optional<std::string> cut;
  std::optional<int> workers;
  int default_workers = 3;  // where no flag and no file says how many
  std::optional<int> stages;
  std::optional<int64_t> batch;
  std::optional<int> micro_batches;
  std::vector<int64_t> given_sizes = {};  // rows of each of them, where --micro-batches says so
  std::optional<std::string> schedule;    // a name or a file
  std::string default_schedule = "1f1b";
  std::optional<int64_t> memory;
  bool fit_batch = false;  // the most rows that fit, instead of `batch`
  std::optional<std::string> objective;
  double slack = 0;      // of a layer cut: of the bottleneck, to save bytes
  bool certify = false;  // of a layer cut: search until the bottleneck is proved
  std::string assign;    // of a layer cut: a file of node to stage, instead of a search
  std::string shares;
  SteeringFlags steering;
  std::optional<bool> pairs;
  std::string profile;                                          // a file, or a run's folder
  std::optional<partitioner::Profile> measured = std::nullopt;  // in place of one of a file
  std::optional<int> slots;
  std::optional<std::string> transport;
  std::optional<int> threads;                // per worker
  std::vector<runtime::DeviceKind> devices;  // of the workers in turn; empty: CPUs
  std::optional<std::string> optimizer;
  std::optional<double> momentum;  // of sgd: above 0, it has a state

  // Plan for what that crew will be: its transport, threads and devices.
  void run_on(const CrewFlags& crew);
};

void add_cut_flags(CLI::App& command, PlanFlags& flags);
// Those of them that a schedule by itself has a use for: how many workers and micro-batches.
void add_count_flags(CLI::App& command, PlanFlags& flags, int most_workers = kMostWorkers);
// And those that it has none for.
std::vector<CLI::Option*> add_division_flags(CLI::App& command, PlanFlags& flags);
CLI::Option* add_plan_file_flag(CLI::App& command, std::string& file);
// What decides about the optimizer's states. Who only plans has no L-BFGS, which has none.
enum class Optimizers : uint8_t { kWithStates, kAll };
void add_optimizer_flags(CLI::App& command, PlanFlags& flags,
                         Optimizers which = Optimizers::kWithStates);
CLI::Option* add_memory_flag(CLI::App& command, PlanFlags& flags);
// For commands that only foresee a run; those that run add_crew_flags().
std::vector<CLI::Option*> add_setting_flags(CLI::App& command, PlanFlags& flags);

}  // namespace kerf::apps
