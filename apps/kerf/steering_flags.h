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

  // The first that was given; empty: none.
  std::string first() const;
};

void add_steering_flags(CLI::App& command, SteeringFlags& flags);

// What a cut is asked, before the model is looked at. `cut`: as given, or empty. `by_file`: the
// schedule is a file's. Throws Error{kUsage} at the flag that is wrong or does not go with another.
struct Asked {
  partitioner::Steering steering;
  partitioner::Capacities capacities;
  std::optional<std::string> cut;  // that the flags come to
};
Asked asked_by(const SteeringFlags& flags, const std::optional<std::string>& cut, bool by_shares,
               bool by_file, std::optional<int> workers);
// Of a plan that is made already: none of these flags. Throws Error{kUsage}.
void refuse_steering(const SteeringFlags& flags, const std::string& why);

// What was asked, as a plan keeps it; adds nothing where nothing was.
void add_asked(const partitioner::Plan& plan, Json& told);

}  // namespace kerf::apps
