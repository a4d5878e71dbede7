// What two runs have in common of which one goes on with the other.
#include "schedmp/training/training.h"
#include "schedmp/training/training_state.h"

namespace kerf::schedmp {

namespace {

std::string yes_or_no(bool yes) { return yes ? "yes" : "no"; }

// What the weights hang on beside the rows of a step: of replicas that share theirs.
void tell_replicas(const TrainingOptions& options, RunTold& told) {
  const ReplicaOptions& r = options.replicas;
  if (r.count == 1 || options.lbfgs) return;
  told["--replicas"] = kerf::format("{}", r.count);
  told["--consistency"] = to_string(r.consistency);
  if (r.server_groups > 1) told["--server-groups"] = kerf::format("{}", r.server_groups);
  if (r.push_every > 1) told["--push-every"] = kerf::format("{}", r.push_every);
  if (r.fetch_every > 1) told["--fetch-every"] = kerf::format("{}", r.fetch_every);
}

void tell_optimizer(const TrainingOptions& options, RunTold& told) {
  const ops::OptimizerOptions& o = options.optimizer;
  told["--optimizer"] =
      options.lbfgs ? kerf::format("lbfgs --history {}", options.lbfgs->history) : o.name;
  told["--lr"] = kerf::format("{}", o.learning_rate);
  told["--momentum"] = kerf::format("{}", o.momentum);
  told["--nesterov"] = yes_or_no(o.nesterov);
  told["--beta1"] = kerf::format("{}", o.beta1);
  told["--beta2"] = kerf::format("{}", o.beta2);
  told["--eps"] = kerf::format("{}", o.epsilon);
  told["--weight-decay"] = kerf::format("{}", o.weight_decay);
  told["--no-decay"] = o.no_decay.empty() ? "none" : kerf::format("{}", fmt::join(o.no_decay, " "));
  told["--clip-norm"] = kerf::format("{}", o.most_norm);
  told["--lr-schedule"] = to_string(options.rates);
  told["--warm-up"] = kerf::format("{}", options.rates.warm_up);
}

}  // namespace

RunTold Training::told() const {
  const State& half = *state_;
  const TrainingOptions& options = half.options;
  // Not as it was rewritten for this plan.
  const partitioner::Model* const original = half.model.original();
  RunTold told{
      {kToldModel, options.model_source},
      {"model fingerprint", (original != nullptr ? *original : half.model).fingerprint()},
      {"--data", kerf::format("{} {} {}", options.dataset, State::fingerprint_of(half.train),
                              State::fingerprint_of(half.test))},
      {"--batch", kerf::format("{}", options.batch)},
      {"--seed", kerf::format("{}", options.seed)},
      {"--no-shuffle", yes_or_no(!options.shuffle)},
      {"--no-test", yes_or_no(!options.evaluate)},
      {"--early-stop", kerf::format("{}", options.patience)}};
  tell_replicas(options, told);
  tell_optimizer(options, told);
  // A rate that does not fall towards the last step is the same however many there are.
  told["--steps"] = options.rates.kind == RateSchedule::Kind::kCosine
                        ? kerf::format("{}", half.rounds.total_steps())
                        : "any";
  if (!half.numbering.names.empty()) told[kToldNumbering] = write_numbering(half.numbering);
  // One that never drains has other bits, and others by where it was asked to drain. Where it was
  // not, that follows from its rows: under another plan it may drain elsewhere, and go on.
  told["--schedule"] =
      half.schedule.endless()
          ? kerf::format("one that never drains, with --save-every {}", options.drain_every)
          : "one that drains behind each step";
  return told;
}

}  // namespace kerf::schedmp
