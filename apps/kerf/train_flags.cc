#include "apps/kerf/train_flags.h"

#include "apps/data/datasets.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/run_flags.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"

namespace kerf::apps {

namespace {

constexpr int kDefaultEpochs = 5;

}  // namespace

void TrainFlags::check() const {
  saves.check();
  check_buddy_flag(crew, saves.keep_workers.has_value());
  require(!no_test || !learning.patience, "--early-stop",
          "it needs the tests; leave --no-test out");
  require(costs.empty() || options.trace_steps > 0, "--save-costs",
          "it needs a trace; leave --trace-steps 0 out");
  require(costs.empty() || steps.value_or(1) > 0, "--save-costs", "no step is no measurement");
  require(costs.empty() || can_hold_file(costs), "--save-costs",
          format("there is no folder for {}", costs));
  check_shrink();
  // --workers is of each of them, and what is left may be any number.
  require(!crew.shrink || replicas.replicas == 1, "--shrink",
          "it plans anew, for as many workers as are left, and --replicas need as many each; leave "
          "one of them out");
  rebalance.check({plan, plan_file, crew, replicas, saves, options.trace_steps});
  rebalance.check_folder(plan, rebalance_folder());
}

void TrainFlags::check_shrink() const {
  require(!crew.shrink || !crew.listen.empty(), "--shrink",
          "workers that the run starts itself are started again; it is for --listen");
  require(!crew.shrink || !crew.listen.ends_with(":*"), "--shrink",
          "workers look for the run at the same address again; give --listen a port");
  require(!crew.shrink || crew.hosts.empty(), "--shrink",
          "--hosts would have it begin with the same hosts; name more there, and give --spares");
  require(!crew.shrink || !crew.no_restart, "--shrink", "--no-restart ends the run");
  require(!crew.shrink || plan_file.empty(), "--shrink",
          "it plans anew, for fewer workers; leave --plan out");
  const std::string& schedule = plan.schedule.value_or(plan.default_schedule);
  require(!crew.shrink || is_built_in(schedule), "--shrink",
          "it plans anew, for fewer workers, and a schedule of a file is for as many as it says; "
          "give one by its name");
  require(!crew.shrink || plan.shares.empty(), "--shrink",
          "it plans anew, for fewer workers; leave --shares out");
  // The file that --rebalance made is another matter.
  const bool listed = !plan.steering.devices.empty() && rebalance.known.empty();
  require(!crew.shrink || !listed, "--shrink",
          "--devices lists the workers that the run begins with; leave one of them out");
}

void add_train_flags(CLI::App& command, TrainFlags& flags) {
  schedmp::TrainingOptions& options = flags.options;
  options.epochs = kDefaultEpochs;
  add_model_flags(command, flags.plan);
  add_cut_flags(command, flags.plan);
  add_crew_flags(command, flags.crew);
  add_threads_flag(command, flags.crew);
  add_buddy_flag(command, flags.crew, "step");
  add_data_flag(command, flags.data_name);
  command.add_option("--epochs", options.epochs, "Passes over the data")
      ->check(whole_number<int>(1))
      ->capture_default_str();
  command
      .add_option("--steps", flags.steps,
                  "Stop after this many steps, or --epochs where that is earlier; 0 only writes "
                  "initial weights")
      ->check(whole_number<int64_t>())
      ->type_name("S");
  add_seed_flag(command, options.seed, "Of initial weights and data order");
  add_optimizer_flags(command, flags.plan, Optimizers::kAll);
  add_learning_flags(command, flags.learning);
  add_lbfgs_flags(command, flags.lbfgs);
  add_replica_flags(command, flags.replicas);
  add_save_flags(command, flags.saves);
  add_rebalance_flags(command, flags.rebalance);
  add_plan_file_flag(command, flags.plan_file);
  add_weights_flag(command, options.weights, "Start from these weights");
  command.add_flag("--no-shuffle", flags.no_shuffle, "Take the rows in the file's order");
  command.add_flag("--no-test", flags.no_test, "Do not measure test accuracy");
  command.add_option("--trace-steps", options.trace_steps, "Steps to keep a trace of")
      ->check(whole_number<int>())
      ->capture_default_str();
  command
      .add_option("--save-costs", flags.costs,
                  "Write what F, I and W of each stage and a message took in the traced steps, and "
                  "the bytes of messages and activations, for kerf schedule --costs")
      ->type_name("FILE.json");
  command.add_option("--out", flags.out, "Folder for plan, trace, weights and report")
      ->capture_default_str();
  command.add_option("--picture", flags.picture, "The picture of the cut (default DIR/plan.svg)")
      ->type_name("FILE.svg");
  command.add_flag(
      "--shrink", flags.crew.shrink,
      format("With --listen: where nobody takes a lost worker's place for {} s, go on "
             "with those that are left, by a plan for them, from the newest checkpoint",
             kShrinkAfter.count()));
  add_json_flag(command, flags.json);
}

}  // namespace kerf::apps
