// What kerf train is told: its flags, and what of them goes together.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "apps/kerf/lbfgs_flags.h"
#include "apps/kerf/learning_flags.h"
#include "apps/kerf/plan_flags.h"
#include "apps/kerf/rebalance_flags.h"
#include "apps/kerf/replica_flags.h"
#include "apps/kerf/save_flags.h"
#include "apps/main/crew_flags.h"
#include "schedmp/training/training.h"

namespace kerf::apps {

struct TrainFlags {
  PlanFlags plan;
  CrewFlags crew;
  LearningFlags learning;
  LbfgsFlags lbfgs;
  ReplicaFlags replicas;
  SaveFlags saves;
  RebalanceFlags rebalance;
  schedmp::TrainingOptions options;  // what the parser fills in of it
  std::string data_name = "fashion-mnist";
  std::string plan_file;
  std::string out = "kerf-run";
  std::string picture;
  std::string costs;  // a file to write
  std::optional<int64_t> steps;
  bool no_shuffle = false;
  bool no_test = false;
  bool json = false;

  // Throws Error{kUsage} at the flag that cannot be heeded, before anything is read or planned.
  void check() const;
  std::filesystem::path rebalance_folder() const {
    return std::filesystem::path(out) / "rebalance";
  }

 private:
  void check_shrink() const;
};

void add_train_flags(CLI::App& command, TrainFlags& flags);

}  // namespace kerf::apps
