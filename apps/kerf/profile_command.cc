// kerf profile: how long a model's operators take on one worker of this host, for kerf plan
// --profile.
#include <algorithm>
#include <memory>

#include "apps/data/datasets.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/run_flags.h"
#include "apps/kerf/run_training.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/profile_file.h"
#include "apps/report/table.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostSteps = 1000;
constexpr size_t kOperatorsShown = 20;  // operators, those that take most

struct ProfileCommand {
  PlanFlags flags;
  CrewFlags crew;
  int64_t rows = 16;
  int64_t steps = 6;
  std::string out = kProfileFile;
  bool json = false;

  int run();

 private:
  Outcome measured(const Planned& planned);
  std::string text(const std::vector<OperatorTimes>& times, bool colour) const;
  // The first of several warms up.
  std::string measured_steps() const { return plural(std::max<int64_t>(1, steps - 1), "step"); }
};

// Whole steps of one worker with nothing beside it: what an operator takes is its own.
Outcome ProfileCommand::measured(const Planned& planned) {
  schedmp::TrainingOptions options = options_of(RunKind::kTrain, planned);
  options.dataset = complete_dataset_name("synthetic", planned.model, planned.plan.batch);
  options.epochs = 1;
  options.steps = steps;
  options.evaluate = false;
  options.trace_steps = steps;
  const schedmp::OpenSplits data = open_data(RunKind::kTrain, planned, options);
  const int64_t per_epoch = std::max<int64_t>(1, data.train->rows() / options.batch);
  options.epochs = static_cast<int>(steps / per_epoch + 1);
  return run_training(RunKind::kTrain, planned, fitting_schedule_of(flags, planned).schedule,
                      options, data, crew);
}

std::string ProfileCommand::text(const std::vector<OperatorTimes>& times, bool colour) const {
  std::vector<OperatorTimes> longest = times;
  std::stable_sort(longest.begin(), longest.end(), [](const auto& a, const auto& b) {
    return a.measured.total() > b.measured.total();
  });
  Table table(
      {"operator", "forward", "input gradient", "weight gradient", "together", "predicted"});
  OperatorSeconds all;
  double predicted = 0;
  for (size_t i = 0; i < longest.size(); ++i) {
    const OperatorSeconds& of = longest[i].measured;
    all.forward += of.forward;
    all.input_gradient += of.input_gradient;
    all.weight_gradient += of.weight_gradient;
    predicted += longest[i].predicted.total();
    if (i < kOperatorsShown)
      table.add({longest[i].name, human_seconds(of.forward), human_seconds(of.input_gradient),
                 human_seconds(of.weight_gradient), human_seconds(of.total()),
                 human_seconds(longest[i].predicted.total())});
  }
  table.add({format("all {}", longest.size()), human_seconds(all.forward),
             human_seconds(all.input_gradient), human_seconds(all.weight_gradient),
             human_seconds(all.total()), human_seconds(predicted)});
  return table.text(colour) + format("\nof a step of {}, the median of {}\nprofile  {}\n",
                                     plural(rows, "row"), measured_steps(), out);
}

int ProfileCommand::run() {
  require(can_hold_file(out), "--out", format("there is no folder for {}", out));
  flags.run_on(crew);
  flags.workers = 1;
  flags.batch = rows;
  flags.micro_batches = 1;
  const Planned planned = make_plan_of(flags);
  require_loss(planned.model);
  crew.threads = planned.setting.threads;
  const Outcome outcome = measured(planned);
  const auto times = operator_times(planned.model, planned.plan, traces_of(outcome));
  Json file = profile_file(planned.model, planned.plan, outcome.driven.crew.at(0).device, times);
  runtime::write_file_atomic(out, json_text(file, 1) + "\n");
  answer(
      json, [&] { return file; }, [&](bool colour) { return text(times, colour); });
  return 0;
}

}  // namespace

void add_profile_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "profile", "Measures how long each operator of a model takes on one worker of this host.");
  auto state = std::make_shared<ProfileCommand>();
  add_model_flags(*command, state->flags);
  add_crew_flags(*command, state->crew);
  add_threads_flag(*command, state->crew);
  add_optimizer_flags(*command, state->flags);
  command->add_option("--rows", state->rows, "Rows of a micro-batch, as plans will have")
      ->check(whole_number<int64_t>(1, partitioner::kMostRows))
      ->capture_default_str();
  command->add_option("--steps", state->steps, "Of training on made-up rows; the first warms up")
      ->check(whole_number<int64_t>(1, kMostSteps))
      ->capture_default_str();
  command->add_option("--out", state->out, "Where the profile goes")
      ->type_name("FILE")
      ->capture_default_str();
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf profile resnet18 --image-size 64 --rows 8 --out resnet18.profile.json\n"
      "  kerf plan resnet18 --image-size 64 --profile resnet18.profile.json --workers 4");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
