// kerf train: plan, run, compare what happened with what was predicted, and keep the results.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "apps/data/datasets.h"
#include "apps/given_weights.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/lbfgs_flags.h"
#include "apps/kerf/learning_flags.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/rebalance.h"
#include "apps/kerf/rebalance_flags.h"
#include "apps/kerf/replica_flags.h"
#include "apps/kerf/run_flags.h"
#include "apps/kerf/run_folder.h"
#include "apps/kerf/run_training.h"
#include "apps/kerf/save_flags.h"
#include "apps/kerf/traced_run.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/next_process.h"
#include "apps/report/json_fields.h"
#include "apps/report/page.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/open_file.h"
#include "runtime/process.h"
#include "runtime/time.h"
#include "schedmp/action_costs.h"

namespace kerf::apps {

namespace {

// Epochs that so many steps touch, at least one.
int epochs_of(int64_t steps, int64_t per_epoch) {
  const int64_t begun = steps % per_epoch == 0 ? 0 : 1;
  return static_cast<int>(std::clamp<int64_t>(steps / per_epoch + begun, 1, INT32_MAX));
}

struct TrainCommand {
  PlanFlags plan_flags;
  CrewFlags crew_flags;
  LearningFlags learning;
  LbfgsFlags lbfgs_flags;
  ReplicaFlags replica_flags;
  SaveFlags save_flags;
  RebalanceFlags rebalance_flags;
  schedmp::TrainingOptions flags;  // what the parser fills in of it
  std::string data_name = "fashion-mnist";
  std::string plan_file;
  std::string out = "kerf-run";
  std::string picture;
  std::string costs;  // a file to write
  std::optional<int64_t> steps;
  bool no_shuffle = false;
  bool no_test = false;
  bool json = false;
  const Chosen* process = nullptr;

  int run();

 private:
  int train();
  void check() const;
  void check_shrink() const;
  [[noreturn]] void go_on_with(const FewerWorkers& fewer) const;
  Outcome run_watched(const Planned& planned, const schedmp::Schedule& schedule,
                      const schedmp::TrainingOptions& options, const schedmp::OpenSplits& data,
                      const CheckpointFolder& checkpoints);
  void read_earlier();
  void check_goes_on() const;
  Watch watch_of(Rebalance& rebalance);
  [[noreturn]] void go_on_rebalanced(const GoesOnElsewhere& run) const;
  [[noreturn]] void begin_again(const NextFlags& next,
                                const runtime::OpenFile& handed = runtime::OpenFile(-1)) const;
  std::filesystem::path rebalance_folder() const {
    return std::filesystem::path(out) / "rebalance";
  }
  void end_with_the_earlier(int64_t rows, schedmp::TrainingOptions& options) const;
  schedmp::TrainingOptions options(const Planned& planned) const;

  std::filesystem::path resume_from_;            // where the run writes its checkpoints
  bool checkpoints_go_ = false;                  // once the run ended well
  std::shared_ptr<schedmp::LeftMemory> left_;    // by the run that this one goes on with
  std::shared_ptr<schedmp::KeptMemory> memory_;  // of this one
  Rebalanced rebalanced_;                        // until now
  std::optional<Rebalance::Agreed> agreed_;      // another plan, to go on by
  const int64_t began_ns_ = runtime::now_ns();
};

void TrainCommand::check() const {
  save_flags.check();
  check_buddy_flag(crew_flags, save_flags.keep_workers.has_value());
  require(flags.epochs >= 1, "--epochs", format("{} is not at least 1", flags.epochs));
  require(!no_test || !learning.patience, "--early-stop",
          "it needs the tests; leave --no-test out");
  require(costs.empty() || flags.trace_steps > 0, "--save-costs",
          "it needs a trace; leave --trace-steps 0 out");
  require(costs.empty() || steps.value_or(1) > 0, "--save-costs", "no step is no measurement");
  require(costs.empty() || can_hold_file(costs), "--save-costs",
          format("there is no folder for {}", costs));
  check_shrink();
  // --workers is of each of them, and what is left may be any number.
  require(!crew_flags.shrink || replica_flags.replicas == 1, "--shrink",
          "it plans anew, for as many workers as are left, and --replicas need as many each; leave "
          "one of them out");
  rebalance_flags.check(
      {plan_flags, plan_file, crew_flags, replica_flags, save_flags, flags.trace_steps});
  rebalance_flags.check_folder(plan_flags, rebalance_folder());
  if (rebalance_flags.goes_on) std::ignore = next_words(process->argc, process->argv, {});
}

void TrainCommand::check_shrink() const {
  require(!crew_flags.shrink || !crew_flags.listen.empty(), "--shrink",
          "workers that the run starts itself are started again; it is for --listen");
  require(!crew_flags.shrink || !crew_flags.listen.ends_with(":*"), "--shrink",
          "workers look for the run at the same address again; give --listen a port");
  require(!crew_flags.shrink || crew_flags.hosts.empty(), "--shrink",
          "--hosts would have it begin with the same hosts; name more there, and give --spares");
  require(!crew_flags.shrink || !crew_flags.no_restart, "--shrink", "--no-restart ends the run");
  require(!crew_flags.shrink || plan_file.empty(), "--shrink",
          "it plans anew, for fewer workers; leave --plan out");
  const std::string& schedule = plan_flags.schedule.value_or(plan_flags.default_schedule);
  require(!crew_flags.shrink || is_built_in(schedule), "--shrink",
          "it plans anew, for fewer workers, and a schedule of a file is for as many as it says; "
          "give one by its name");
  require(!crew_flags.shrink || plan_flags.shares.empty(), "--shrink",
          "it plans anew, for fewer workers; leave --shares out");
  // The file that --rebalance made is another matter.
  const bool listed = !plan_flags.steering.devices.empty() && rebalance_flags.known.empty();
  require(!crew_flags.shrink || !listed, "--shrink",
          "--devices lists the workers that the run begins with; leave one of them out");
}

// What was caught says how to go on by hand.
[[noreturn]] void fail_with(const Error& error, const std::string& way_on) {
  if (way_on.empty()) throw;
  throw Error(error.code(), format("{}; {}", error.message(), way_on), error.where());
}

// As a person would: by the same command, from the newest checkpoint, if there is one of this run.
void TrainCommand::go_on_with(const FewerWorkers& fewer) const {
  NextFlags next{{"--workers", std::to_string(fewer.left())}};
  std::string from = save_flags.resume.empty() ? "the first step: there is no checkpoint yet"
                                               : "the checkpoint that it was resumed from";
  std::string way_on;
  if (!resume_from_.empty() &&
      (schedmp::has_checkpoints(resume_from_) || schedmp::has_left_memory(resume_from_))) {
    next["--resume"] = resume_from_.string();
    if (checkpoints_go_) next["--checkpoints-go"] = "";
    from = "the newest checkpoint";
    way_on = format("--resume {} goes on from it", resume_from_.string());
  }
  fewer.end_if_asked(way_on);
  try {
    // Which of them are slow is measured anew: they have other numbers.
    if (!rebalance_flags.known.empty())
      next.merge(flags_of_fewer(rebalance_folder(), fewer.left(), rebalanced_));
    tell_notes({format("{}; goes on with {}, from {}", first_line(fewer.message()),
                       plural(fewer.left(), "worker"), from)});
    begin_again(next);
  } catch (const Error& error) {
    fail_with(error, way_on);
  }
}

void TrainCommand::begin_again(const NextFlags& next, const runtime::OpenFile& handed) const {
  NextWords words = next_words(process->argc, process->argv, next);
  runtime::begin_process_again(words.given, process->argv, std::move(words.more), handed.number());
}

Outcome TrainCommand::run_watched(const Planned& planned, const schedmp::Schedule& schedule,
                                  const schedmp::TrainingOptions& options,
                                  const schedmp::OpenSplits& data,
                                  const CheckpointFolder& checkpoints) {
  resume_from_ = checkpoints.path();
  checkpoints_go_ = !checkpoints.stays();
  std::optional<Rebalance> rebalance;
  if (rebalance_flags.asked) {
    check_goes_on();
    read_earlier();
    rebalance.emplace(Rebalance::Run{plan_flags, crew_flags, planned, schedule, options,
                                     rebalanced_, rebalance_folder(), began_ns_});
  }
  return run_training(
      RunKind::kTrain, planned, schedule, options, data, crew_flags, progress_on_stderr(),
      [&](const schedmp::Training& /*training*/) {
        schedmp::SnapshotOptions saved =
            save_flags.options(checkpoints, crew_flags.buddy_every.value_or(0));
        memory_ = saved.memory;
        saved.left = left_;
        return saved;
      },
      rebalance ? watch_of(*rebalance) : Watch{.names_slow = true});
}

// Where the run would find nothing to go on from.
void TrainCommand::check_goes_on() const {
  require(!resume_from_.empty(), "--rebalance",
          "it goes on from a checkpoint, and this run writes none; give another --out");
}

void TrainCommand::read_earlier() {
  if (!rebalance_flags.known.empty()) rebalanced_ = read_rebalanced(rebalance_flags.known);
}

Watch TrainCommand::watch_of(Rebalance& rebalance) {
  return {[&rebalance](const auto& training, const auto& step, auto compute_ns) {
            rebalance.computed(training, step, compute_ns);
          },
          [this, &rebalance] {
            const bool leaves = rebalance.leaves();
            if (leaves) agreed_ = rebalance.agreed();
            return leaves;
          },
          [&rebalance](const auto& workers, double waited_seconds) {
            rebalance.are_here(workers, waited_seconds);
          }};
}

// By the same command, under a plan for the speeds that were measured.
void TrainCommand::go_on_rebalanced(const GoesOnElsewhere& run) const {
  run.end_if_asked(run.message());
  NextFlags next = agreed_->flags;
  next["--resume"] = resume_from_.string();
  if (checkpoints_go_) next["--checkpoints-go"] = "";
  tell_notes({agreed_->told});
  try {
    const runtime::OpenFile returning = hand_returning(run.returning());
    next[kReturningFlag] = std::to_string(returning.number());
    begin_again(next, returning);
  } catch (const Error& error) {
    fail_with(error, run.message());
  }
}

// Steps or epochs, where both are given; a default is no limit beside --steps.
void TrainCommand::end_with_the_earlier(int64_t rows, schedmp::TrainingOptions& options) const {
  if (!steps || options.lbfgs) return;
  const int64_t batch = options.batch * options.replicas.count;
  const int64_t per_epoch = (rows + batch - 1) / batch;
  if (plan_flags.command->get_option("--epochs")->count() > 0)
    options.steps = std::min(*steps, per_epoch * flags.epochs);
  options.epochs = epochs_of(options.steps, per_epoch);
}

schedmp::TrainingOptions TrainCommand::options(const Planned& planned) const {
  schedmp::TrainingOptions options = options_of(RunKind::kTrain, planned);
  require_loss(planned.model);
  options.dataset = complete_dataset_name(data_name, planned.model, planned.plan.batch);
  options.weights = existing_weights(flags.weights);
  tell_notes(check_weights(planned.model, planned.source, planned.folded, options.weights));
  options.epochs = flags.lbfgs ? 1 : flags.epochs;
  options.steps = steps.value_or(-1);
  options.evaluate = !no_test;
  options.shuffle = !no_shuffle;
  options.seed = flags.seed;
  learning.apply(planned, options);
  options.trace_steps = flags.trace_steps;
  options.drain_every = save_flags.when().steps;
  if (options.steps == 0) return options;
  options.replicas = flags.replicas;
  options.lbfgs = flags.lbfgs;
  return options;
}

void keep_profile(const RunFolder& folder, const Planned& planned, const Outcome& outcome,
                  std::span<const runtime::WorkerTrace> traces) {
  const auto times = operator_times(planned.model, planned.plan, traces);
  if (times.empty()) return;  // nothing was traced
  const Json file =
      profile_file(planned.model, planned.plan, outcome.driven.crew.at(0).device, times);
  runtime::write_file_atomic(folder.profile(), json_text(file, 1) + "\n");
}

// With a row of the scheduler where it has something to show.
void write_trace(const RunFolder& folder, const TracedRun& traced, const Outcome& outcome) {
  std::vector<runtime::WorkerTrace> traces = traced.traces();
  if (auto scheduler = scheduler_trace_of(outcome)) traces.push_back(std::move(*scheduler));
  runtime::write_chrome_trace(folder.trace(), traces);
  tell_lost_spans(outcome.driven.loop.spans_lost);
}

int TrainCommand::run() {
  try {
    return train();
  } catch (const FewerWorkers& fewer) {
    go_on_with(fewer);
  } catch (const GoesOnElsewhere& run) {
    go_on_rebalanced(run);
  }
}

int TrainCommand::train() {
  check();
  if (rebalance_flags.returning)  // before another process is started, which would have it
    crew_flags.returning = take_returning(*rebalance_flags.returning);
  left_ = save_flags.left();  // before its time is over
  plan_flags.run_on(crew_flags);
  flags.lbfgs = lbfgs_flags.applied_to(plan_flags, steps);
  flags.replicas = replica_flags.applied_to(plan_flags, plan_file, flags.lbfgs.has_value());
  Planned planned = planned_by(plan_flags, plan_file);
  crew_flags.threads = planned.setting.threads;
  if (planned.more_states != 0)
    tell_notes(
        {format("{} takes {} optimizer state than the plan was made for; its memory is proved anew",
                flags.lbfgs                  ? std::string("--optimizer lbfgs")
                : planned.optimizer == "sgd" ? format("--momentum {}", planned.momentum)
                                             : "--optimizer " + planned.optimizer,
                planned.more_states > 0 ? "more" : "less")});
  const PlanSchedule found = fitting_schedule_of(plan_flags, planned);
  const schedmp::Schedule& schedule = found.schedule;
  note_drains(found);
  require(!crew_flags.buddy_every || !schedule.endless(), "--buddy-every",
          format("workers keep what they hold where the schedule drains, and {} never does but for "
                 "a checkpoint on disk; give --save-every N in its place",
                 schedule.name));
  schedmp::TrainingOptions options = this->options(planned);
  const schedmp::OpenSplits data = open_data(RunKind::kTrain, planned, options);
  const int64_t rows_of_step = options.batch * options.replicas.count;
  require(costs.empty() || data.train->rows() >= rows_of_step, "--save-costs",
          format("no step would have the {} of --batch: the data has {}", rows_of_step,
                 plural(data.train->rows(), "row")));
  end_with_the_earlier(data.train->rows(), options);

  const RunFolder folder(out, picture);
  folder.make(planned);
  const ShareFolder shares(folder.path());
  options.shards = shares.path();
  const CheckpointFolder checkpoints = save_flags.folder(folder.path());
  const Outcome outcome = run_watched(planned, schedule, options, data, checkpoints);

  folder.keep(planned, schedule);
  schedmp::join_weights(planned.model, planned.plan, shares.path(), folder.weights(),
                        outcome.training->numbering());
  RunRecord record = record_of(planned, outcome);
  record.drains = found.drains;
  if (const int64_t period = outcome.training->drain_period(); period > 0)
    record.drain_period = period;
  record.rebalances = rebalanced_.all;
  runtime::write_file_atomic(folder.report(), write_run_record(record));
  const TracedRun traced(planned, schedule, outcome);
  write_trace(folder, traced, outcome);
  keep_profile(folder, planned, outcome, traced.traces());
  record.traced = traced.step();
  record.untraced = traced.why_not();
  runtime::write_file_atomic(folder.page(), report_page(record));
  runtime::write_file_atomic(folder.report(), write_run_record(record));
  if (memory_) memory_->end();
  if (left_) left_->remove();
  checkpoints.end_well();
  // What was measured is in the plan that the run leaves. With the lock on its checkpoints nobody
  // else is at it, so what an earlier process of it left goes, too.
  if (checkpoints.lock()) remove_rebalance_files(rebalance_folder());
  answer(
      json, [&] { return to_json(record); },
      [&](bool colour) { return run_text(record, colour) + "\n" + folder.text(); });
  check_traffic(record);
  if (!costs.empty()) runtime::write_file_atomic(costs, schedmp::write_costs(traced.costs()));
  return 0;
}

void add_flags(CLI::App& command, TrainCommand& state) {
  schedmp::TrainingOptions& options = state.flags;
  add_data_flag(command, state.data_name);
  command.add_option("--epochs", options.epochs, "Passes over the data")
      ->check(whole_number<int>())
      ->capture_default_str();
  command
      .add_option("--steps", state.steps,
                  "Stop after this many steps, or --epochs where that is earlier; 0 only writes "
                  "initial weights")
      ->check(whole_number<int64_t>())
      ->type_name("S");
  add_seed_flag(command, options.seed, "Of initial weights and data order");
  add_optimizer_flags(command, state.plan_flags, Optimizers::kAll);
  add_learning_flags(command, state.learning);
  add_lbfgs_flags(command, state.lbfgs_flags);
  add_replica_flags(command, state.replica_flags);
  add_save_flags(command, state.save_flags);
  add_rebalance_flags(command, state.rebalance_flags);
  add_plan_file_flag(command, state.plan_file);
  add_weights_flag(command, options.weights, "Start from these weights");
  command.add_flag("--no-shuffle", state.no_shuffle, "Take the rows in the file's order");
  command.add_flag("--no-test", state.no_test, "Do not measure test accuracy");
  command.add_option("--trace-steps", options.trace_steps, "Steps to keep a trace of")
      ->check(whole_number<int>())
      ->capture_default_str();
  command
      .add_option("--save-costs", state.costs,
                  "Write what F, I and W of each stage and a message took in the traced steps, and "
                  "the bytes of messages and activations, for kerf schedule --costs")
      ->type_name("FILE.json");
  command.add_option("--out", state.out, "Folder for plan, trace, weights and report")
      ->capture_default_str();
  command.add_option("--picture", state.picture, "The picture of the cut (default DIR/plan.svg)")
      ->type_name("FILE.svg");
  command.add_flag(
      "--shrink", state.crew_flags.shrink,
      format("With --listen: where nobody takes a lost worker's place for {} s, go on "
             "with those that are left, by a plan for them, from the newest checkpoint",
             kShrinkAfter.count()));
  add_json_flag(command, state.json);
}

}  // namespace

void add_train_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "train", "Trains a model that is cut over several workers, as if it were on one.");
  auto state = std::make_shared<TrainCommand>();
  state->process = &chosen;
  state->flags.epochs = 5;
  add_model_flags(*command, state->plan_flags);
  add_cut_flags(*command, state->plan_flags);
  add_crew_flags(*command, state->crew_flags);
  add_threads_flag(*command, state->crew_flags);
  add_buddy_flag(*command, state->crew_flags, "step");
  add_flags(*command, *state);
  command->footer(
      "Examples:\n"
      "  kerf train lenet5 --workers 3 --optimizer adamw --lr-schedule cosine --early-stop 2\n"
      "  kerf train mlp --sizes 784-512-10 --cut feature --workers 2 --schedule gpipe --steps 100\n"
      "  kerf train lenet5 --workers 2 --way 'conv*=batch' --way 'fc*=feature'\n"
      "  kerf train lenet5 --replicas 2 --workers 2 --consistency ssp:3\n"
      "  kerf train mlp --optimizer lbfgs --replicas 2 --batch 512 --steps 50\n"
      "  kerf train lenet5 --epochs 50 --save-every 500   and, were it interrupted, with --resume\n"
      "      kerf-run\n"
      "  kerf train lenet5 --place places.txt --workers 3   lines as: conv* 0\n"
      "  kerf train lenet5 --workers 2 --listen tcp://127.0.0.1:5555   then, twice:\n"
      "      kerf worker --connect tcp://127.0.0.1:5555");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
