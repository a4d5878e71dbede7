// kerf train: plan, run, compare what happened with what was predicted, and keep the results.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>

#include "apps/data/datasets.h"
#include "apps/given_weights.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/rebalance.h"
#include "apps/kerf/run_flags.h"
#include "apps/kerf/run_folder.h"
#include "apps/kerf/run_training.h"
#include "apps/kerf/share_folder.h"
#include "apps/kerf/traced_run.h"
#include "apps/kerf/train_flags.h"
#include "apps/kerf/train_next.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/next_process.h"
#include "apps/report/json_fields.h"
#include "apps/report/page.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "runtime/time.h"
#include "schedmp/action_costs.h"
#include "schedmp/safetensors.h"

namespace kerf::apps {

namespace {

// Epochs that so many steps touch, at least one.
int epochs_of(int64_t steps, int64_t per_epoch) {
  const int64_t begun = steps % per_epoch == 0 ? 0 : 1;
  return static_cast<int>(std::clamp<int64_t>(steps / per_epoch + begun, 1, INT32_MAX));
}

class TrainCommand {
 public:
  explicit TrainCommand(const Chosen& process) : process_(process), next_(flags, process) {}
  int run();

  TrainFlags flags;

 private:
  int train();
  Outcome run_watched(const Planned& planned, const schedmp::Schedule& schedule,
                      const schedmp::TrainingOptions& options, const schedmp::OpenSplits& data,
                      const CheckpointFolder& checkpoints);
  void read_earlier();
  void check_goes_on() const;
  Watch watch_of(Rebalance& rebalance);
  void end_with_the_earlier(int64_t rows, schedmp::TrainingOptions& options) const;
  schedmp::TrainingOptions options(const Planned& planned) const;

  const Chosen& process_;
  NextTraining next_;
  std::shared_ptr<schedmp::LeftMemory> left_;    // by the run that this one goes on with
  std::shared_ptr<schedmp::KeptMemory> memory_;  // of this one
  Rebalanced rebalanced_;                        // until now
  std::optional<Rebalance::Agreed> agreed_;      // another plan, to go on by
  const int64_t began_ns_ = runtime::now_ns();
};

Outcome TrainCommand::run_watched(const Planned& planned, const schedmp::Schedule& schedule,
                                  const schedmp::TrainingOptions& options,
                                  const schedmp::OpenSplits& data,
                                  const CheckpointFolder& checkpoints) {
  next_.goes_on_from(checkpoints);
  std::optional<Rebalance> rebalance;
  if (flags.rebalance.asked) {
    check_goes_on();
    read_earlier();
    rebalance.emplace(Rebalance::Run{flags.plan, flags.crew, planned, schedule, options,
                                     rebalanced_, flags.rebalance_folder(), began_ns_});
  }
  return run_training(
      RunKind::kTrain, planned, schedule, options, data, flags.crew, progress_on_stderr(),
      [&](const schedmp::Training& /*training*/) {
        schedmp::SnapshotOptions saved =
            flags.saves.options(checkpoints, flags.crew.buddy_every.value_or(0));
        memory_ = saved.memory;
        saved.left = left_;
        return saved;
      },
      rebalance ? watch_of(*rebalance) : Watch{.names_slow = true});
}

// Where the run would find nothing to go on from.
void TrainCommand::check_goes_on() const {
  require(next_.can_resume(), "--rebalance",
          "it goes on from a checkpoint, and this run writes none; give another --out");
}

void TrainCommand::read_earlier() {
  if (!flags.rebalance.known.empty()) rebalanced_ = read_rebalanced(flags.rebalance.known);
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

// Steps or epochs, where both are given; a default is no limit beside --steps.
void TrainCommand::end_with_the_earlier(int64_t rows, schedmp::TrainingOptions& options) const {
  if (!flags.steps || options.lbfgs) return;
  const int64_t batch = options.batch * options.replicas.count;
  const int64_t per_epoch = (rows + batch - 1) / batch;
  if (flags.plan.command->get_option("--epochs")->count() > 0)
    options.steps = std::min(*flags.steps, per_epoch * flags.options.epochs);
  options.epochs = epochs_of(options.steps, per_epoch);
}

schedmp::TrainingOptions TrainCommand::options(const Planned& planned) const {
  schedmp::TrainingOptions options = options_of(RunKind::kTrain, planned);
  require_loss(planned.model);
  options.dataset = complete_dataset_name(flags.data_name, planned.model, planned.plan.batch);
  options.weights = existing_weights(flags.options.weights);
  tell_notes(check_weights(planned.model, planned.source, planned.folded, options.weights));
  options.epochs = flags.options.lbfgs ? 1 : flags.options.epochs;
  options.steps = flags.steps.value_or(-1);
  options.evaluate = !flags.no_test;
  options.shuffle = !flags.no_shuffle;
  options.seed = flags.options.seed;
  flags.learning.apply(planned, options);
  options.trace_steps = flags.options.trace_steps;
  options.drain_every = flags.saves.when().steps;
  if (options.steps == 0) return options;
  options.replicas = flags.options.replicas;
  options.lbfgs = flags.options.lbfgs;
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
    next_.with_fewer(fewer, rebalanced_);
  } catch (const GoesOnElsewhere& run) {
    next_.rebalanced(run, *agreed_);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInterrupted) next_.tell_of_weights();
    throw;
  }
}

int TrainCommand::train() {
  flags.check();
  if (flags.rebalance.goes_on) std::ignore = next_words(process_.argc, process_.argv, {});
  if (flags.rebalance.returning)  // before another process is started, which would have it
    flags.crew.returning = take_returning(*flags.rebalance.returning);
  left_ = flags.saves.left();  // before its time is over
  flags.plan.run_on(flags.crew);
  flags.options.lbfgs = flags.lbfgs.applied_to(flags.plan, flags.steps);
  flags.options.replicas =
      flags.replicas.applied_to(flags.plan, flags.plan_file, flags.options.lbfgs.has_value());
  Planned planned = planned_by(flags.plan, flags.plan_file);
  flags.crew.threads = planned.setting.threads;
  if (planned.more_states != 0)
    tell_notes(
        {format("{} takes {} optimizer state than the plan was made for; its memory is proved anew",
                flags.options.lbfgs          ? std::string("--optimizer lbfgs")
                : planned.optimizer == "sgd" ? format("--momentum {}", planned.momentum)
                                             : "--optimizer " + planned.optimizer,
                planned.more_states > 0 ? "more" : "less")});
  const PlanSchedule found = fitting_schedule_of(flags.plan, planned);
  const schedmp::Schedule& schedule = found.schedule;
  note_drains(found);
  require(!flags.crew.buddy_every || !schedule.endless(), "--buddy-every",
          format("workers keep what they hold where the schedule drains, and {} never does but for "
                 "a checkpoint on disk; give --save-every N in its place",
                 schedule.name));
  schedmp::TrainingOptions options = this->options(planned);
  const schedmp::OpenSplits data = open_data(RunKind::kTrain, planned, options);
  const int64_t rows_of_step = options.batch * options.replicas.count;
  require(flags.costs.empty() || data.train->rows() >= rows_of_step, "--save-costs",
          format("no step would have the {} of --batch: the data has {}", rows_of_step,
                 plural(data.train->rows(), "row")));
  end_with_the_earlier(data.train->rows(), options);

  const RunFolder folder(flags.out, flags.picture);
  folder.make(planned);
  const ShareFolder shares(folder.path());
  options.shards = shares.path();
  const CheckpointFolder checkpoints = flags.saves.folder(folder.path());
  const Outcome outcome = run_watched(planned, schedule, options, data, checkpoints);

  const auto weights = schedmp::joined_weights(planned.model, planned.plan, shares.path(),
                                               folder.weights(), outcome.training->numbering());
  folder.keep(planned, schedule, *weights);
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
  if (checkpoints.lock()) remove_rebalance_files(flags.rebalance_folder());
  answer(
      flags.json, [&] { return to_json(record); },
      [&](bool colour) { return run_text(record, colour) + "\n" + folder.text(); });
  check_traffic(record);
  if (!flags.costs.empty())
    runtime::write_file_atomic(flags.costs, schedmp::write_costs(traced.costs()));
  return 0;
}

}  // namespace

void add_train_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "train", "Trains a model that is cut over several workers, as if it were on one.");
  auto state = std::make_shared<TrainCommand>(chosen);
  add_train_flags(*command, state->flags);
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
