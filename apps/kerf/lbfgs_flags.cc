#include "apps/kerf/lbfgs_flags.h"

#include <cmath>

#include "apps/main/flag_values.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr int64_t kDefaultIterations = 100;

// Of steps that each take some rows.
constexpr const char* kOfDescent[] = {
    "--momentum",      "--lr",           "--nesterov",    "--beta1",       "--beta2",
    "--eps",           "--weight-decay", "--no-decay",    "--lr-schedule", "--warm-up",
    "--clip-norm",     "--early-stop",   "--epochs",      "--no-shuffle",  "--consistency",
    "--server-groups", "--push-every",   "--fetch-every",
};

}  // namespace

std::optional<schedmp::LbfgsOptions> LbfgsFlags::applied_to(PlanFlags& plan,
                                                            std::optional<int64_t> steps) const {
  if (plan.optimizer != kLbfgs) {
    require(!history, "--history", "it is of --optimizer lbfgs");
    require(!tolerance, "--tol", "it is of --optimizer lbfgs");
    return std::nullopt;
  }
  for (const char* flag : kOfDescent)
    require(plan.command->get_option(flag)->count() == 0, flag,
            "it would do nothing beside --optimizer lbfgs, each of whose iterations takes the "
            "gradient of all rows and finds its own step");
  schedmp::LbfgsOptions options;
  options.history = history.value_or(options.history);
  options.most_gradient = tolerance.value_or(options.most_gradient);
  require(options.most_gradient >= 0 && std::isfinite(options.most_gradient), "--tol",
          format("{} is not 0 or above it", options.most_gradient));
  options.most_iterations = steps.value_or(kDefaultIterations);
  plan.optimizer = "sgd";
  plan.momentum = 0;
  return options;
}

void add_lbfgs_flags(CLI::App& command, LbfgsFlags& flags) {
  const schedmp::LbfgsOptions defaults;
  command
      .add_option(
          "--history", flags.history,
          format("Of lbfgs: changes of weights and gradient that it keeps, two vectors each "
                 "(default {})",
                 defaults.history))
      ->check(whole_number<int>(1, schedmp::kMostHistory))
      ->type_name("N");
  command
      .add_option("--tol", flags.tolerance,
                  format("Of lbfgs: stop where no entry of the gradient is above this (default {})",
                         defaults.most_gradient))
      ->type_name("G");
}

}  // namespace kerf::apps
