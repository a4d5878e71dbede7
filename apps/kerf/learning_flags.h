// The flags that say how a model learns: the optimizer's numbers, how its rate goes, what of
// gradients is clipped, and when there is nothing more to learn.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/kerf/planned.h"
#include "schedmp/training/training.h"

namespace kerf::apps {

// As given; what was not given follows from the optimizer.
struct LearningFlags {
  std::optional<double> rate;
  bool nesterov = false;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> epsilon;
  std::optional<double> weight_decay;
  std::vector<std::string> no_decay;
  std::optional<double> clip_norm;
  std::string schedule = "constant";
  int64_t warm_up = 0;
  std::optional<int> patience;

  // Throws Error{kUsage} that names the flag at fault.
  void apply(const Planned& planned, schedmp::TrainingOptions& options) const;
};

// "adamw, rate 0.001 by cosine after 100 steps of warm-up, ...".
std::string optimizer_text(const schedmp::TrainingOptions& options);

// With add_optimizer_flags() of plan_flags.h, all of an optimizer.
void add_learning_flags(CLI::App& command, LearningFlags& flags);

}  // namespace kerf::apps
