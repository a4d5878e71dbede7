#include "apps/kerf/learning_flags.h"

#include <algorithm>
#include <cmath>

#include "apps/main/flag_values.h"
#include "ops/name_pattern.h"
#include "ops/optimizer.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

// What is taken where nothing is given: PyTorch's, but for sgd's rate, which it has none of.
constexpr double kRateOfSgd = 0.02;
constexpr double kRateOfAdagrad = 0.01;
constexpr double kRateOfAdam = 0.001;
constexpr double kEpsilonOfAdagrad = 1e-10;
constexpr double kEpsilonOfAdam = 1e-8;
constexpr double kDecayOfAdamw = 0.01;

double default_rate(const std::string& optimizer) {
  if (optimizer == "sgd") return kRateOfSgd;
  return optimizer == "adagrad" ? kRateOfAdagrad : kRateOfAdam;
}

bool is_adam(const std::string& optimizer) { return optimizer == "adam" || optimizer == "adamw"; }

// Whether the optimizer takes the options; its refusal becomes the flag's.
void check_options(const ops::OptimizerOptions& options, const char* flag) {
  try {
    const ops::Optimizer optimizer(options);
  } catch (const Error& error) {
    throw Error(error.code(), error.message(), flag);
  }
}

void check_fits_one(const partitioner::Model& model, const std::string& pattern) {
  const auto& parameters = model.parameters();
  require(std::ranges::any_of(parameters,
                              [&](partitioner::ValueId id) {
                                return ops::fits_pattern(model.value(id).name, pattern);
                              }),
          "--no-decay", format("no parameter of {} has a name like {}", model.name(), pattern));
}

}  // namespace

void LearningFlags::apply(const Planned& planned, schedmp::TrainingOptions& options) const {
  ops::OptimizerOptions o;
  o.name = planned.optimizer;
  o.momentum = planned.momentum;
  o.learning_rate = rate.value_or(default_rate(o.name));
  check_options(o, "--lr");
  o.nesterov = nesterov;
  check_options(o, "--nesterov");
  for (const auto& [value, flag] : {std::pair(beta1, "--beta1"), {beta2, "--beta2"}})
    require(!value || is_adam(o.name), flag, "it is of adam and adamw, not of " + o.name);
  require(!epsilon || o.name != "sgd", "--eps", "it is of adagrad, adam and adamw, not of sgd");
  o.beta1 = beta1.value_or(o.beta1);
  check_options(o, "--beta1");
  o.beta2 = beta2.value_or(o.beta2);
  check_options(o, "--beta2");
  o.epsilon = epsilon.value_or(o.name == "adagrad" ? kEpsilonOfAdagrad : kEpsilonOfAdam);
  check_options(o, "--eps");
  o.weight_decay = weight_decay.value_or(o.name == "adamw" ? kDecayOfAdamw : 0);
  check_options(o, "--weight-decay");
  require(no_decay.empty() || o.weight_decay > 0, "--no-decay",
          "nothing decays: see --weight-decay");
  for (const std::string& pattern : no_decay) check_fits_one(planned.model, pattern);
  o.no_decay = no_decay;
  o.most_norm = clip_norm.value_or(0);
  require(!clip_norm || *clip_norm > 0, "--clip-norm", format("{} is not positive", o.most_norm));
  check_options(o, "--clip-norm");
  options.optimizer = std::move(o);
  options.rates = schedmp::parse_rate_schedule(schedule);
  options.rates.warm_up = warm_up;
  options.patience = patience.value_or(0);
}

std::string optimizer_text(const schedmp::TrainingOptions& options) {
  if (options.lbfgs)
    return format("{}, history {}, until no entry of the gradient is above {}", kLbfgs,
                  options.lbfgs->history, options.lbfgs->most_gradient);
  const ops::OptimizerOptions& o = options.optimizer;
  std::string text = format("{}, rate {}", o.name, o.learning_rate);
  if (options.rates.kind != schedmp::RateSchedule::Kind::kConstant)
    text += " by " + to_string(options.rates);
  if (options.rates.warm_up > 0) text += format(", warm-up {}", options.rates.warm_up);
  if (is_adam(o.name)) text += format(", betas {} and {}", o.beta1, o.beta2);
  if (o.name != "sgd") text += format(", epsilon {}", o.epsilon);
  if (o.momentum > 0) text += format(", {}momentum {}", o.nesterov ? "Nesterov " : "", o.momentum);
  if (o.weight_decay > 0) text += format(", weight decay {}", o.weight_decay);
  if (!o.no_decay.empty()) text += format(" but for {}", fmt::join(o.no_decay, ", "));
  if (o.most_norm > 0) text += format(", norms clipped at {}", o.most_norm);
  return text;
}

void add_learning_flags(CLI::App& command, LearningFlags& flags) {
  command
      .add_option("--lr", flags.rate,
                  format("Learning rate (default {} of sgd, {} of adagrad, {} of adam and adamw)",
                         kRateOfSgd, kRateOfAdagrad, kRateOfAdam))
      ->type_name("RATE");
  command.add_flag("--nesterov", flags.nesterov, "sgd looks ahead by its momentum");
  command.add_option("--beta1", flags.beta1, "Of adam and adamw (default 0.9)")->type_name("B");
  command.add_option("--beta2", flags.beta2, "Of adam and adamw (default 0.999)")->type_name("B");
  command
      .add_option("--eps", flags.epsilon,
                  format("Of adam and adamw (default {}), and of adagrad (default {})",
                         kEpsilonOfAdam, kEpsilonOfAdagrad))
      ->type_name("E");
  command
      .add_option("--weight-decay", flags.weight_decay,
                  format("Of weights: added to their gradients by sgd, adagrad and adam (default "
                         "0), taken off by adamw (default {})",
                         kDecayOfAdamw))
      ->type_name("D");
  command
      .add_option("--no-decay", flags.no_decay,
                  "Parameters that do not decay, as '*.bias'; may be repeated")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  command
      .add_option(
          "--lr-schedule", flags.schedule,
          "constant, cosine (down to 0 behind the last step) or step:EVERY:FACTOR, of steps or "
          "epochs: step:1000:0.5, step:30e:0.1")
      ->check(parsed_by([](const std::string& text) { schedmp::parse_rate_schedule(text); }))
      ->capture_default_str();
  command
      .add_option("--warm-up", flags.warm_up,
                  "Steps in which the learning rate grows to its own; the schedule begins behind")
      ->check(whole_number<int64_t>())
      ->type_name("STEPS");
  command
      .add_option("--clip-norm", flags.clip_norm,
                  "Scale gradients down where the norm of all together is larger")
      ->type_name("NORM");
  command
      .add_option(
          "--early-stop", flags.patience,
          "Stop after so many epochs without a lower test loss, and keep the weights of the "
          "lowest")
      ->check(whole_number<int>(1))
      ->type_name("EPOCHS");
}

}  // namespace kerf::apps
