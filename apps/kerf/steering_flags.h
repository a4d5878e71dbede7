// The flags of people who steer: what workers' devices can do, and what a person says of a cut
// beside which one it is (partitioner/steering.h).
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "partitioner/cut.h"

namespace kerf::apps {

// As given.
struct SteeringFlags {
  std::string devices;  // a file
  std::string places;   // a file
  std::optional<std::string> pattern;
  std::optional<int> stages_per_worker;
  std::vector<std::string> ways;
  std::vector<std::string> together;
  std::vector<std::string> apart;
  // Of a run that is planned anew, where no flag says another.
  std::optional<partitioner::Steering> of_run = std::nullopt;
  std::optional<partitioner::Capacities> devices_of_run = std::nullopt;

  // Whether anything says which operators go where, or how; --devices does not.
  bool names_operators() const {
    return !places.empty() || !ways.empty() || !together.empty() || !apart.empty();
  }
};

void add_steering_flags(CLI::App& command, SteeringFlags& flags);

// What a cut is asked, before the model is looked at. `cut`: as given, or empty. `by_file`: the
// schedule is a file's. Throws Error{kUsage} at the flag that is wrong; which flags go with which
// cut is in flag_rules.h.
struct Asked {
  partitioner::Steering steering;
  partitioner::Capacities capacities;
  std::optional<std::string> cut;  // that the flags come to
};
Asked asked_by(const SteeringFlags& flags, const std::optional<std::string>& cut, bool by_file,
               std::optional<int> workers);

}  // namespace kerf::apps
