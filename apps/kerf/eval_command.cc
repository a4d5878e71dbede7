// kerf eval: a training run of no steps, from given weights, on the test rows.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "apps/data/datasets.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/run_training.h"
#include "apps/kerf/train_report.h"
#include "runtime/error.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

struct EvalCommand {
  PlanFlags plan_flags;
  CrewFlags crew_flags;
  std::string weights;
  std::string data = "fashion-mnist";
  bool json = false;

  int run();
};

int EvalCommand::run() {
  if (!std::filesystem::is_regular_file(weights))
    throw Error(ErrorCode::kUsage, format("there is no file {}", weights), "--weights");
  plan_flags.run_on(crew_flags);
  const Planned planned = make_plan_of(plan_flags);
  schedmp::TrainingOptions options;
  options.model_source = plan_flags.source();
  options.dataset = complete_dataset_name(data, planned.model, kSyntheticRows);
  options.batch = planned.plan.batch;
  options.steps = 0;
  options.setting = plan_flags.setting();
  options.memory = plan_flags.memory;
  options.trace_steps = 0;
  options.weights = std::filesystem::absolute(weights).string();
  check_dataset(*make_dataset(options.dataset, schedmp::Split::kTest), options.dataset,
                planned.model);
  const Outcome outcome =
      run_training(planned, fitting_schedule_of(plan_flags, planned.plan), options, crew_flags);

  const schedmp::EvaluationRecord& record = outcome.training->evaluations().back();
  const Json report{{"model", planned.plan.model},   {"data", options.dataset},
                    {"rows", record.rows},           {"correct", record.correct},
                    {"accuracy", record.accuracy()}, {"loss", record.loss}};
  const std::string text = json ? json_text(report, 2) + "\n"
                                : format("test accuracy {:.2f} % ({} of {}), test loss {:.4f}\n",
                                         record.accuracy() * 100, human_count(record.correct),
                                         human_count(record.rows), record.loss);
  std::fputs(text.c_str(), stdout);
  check_traffic(planned, outcome);
  return 0;
}

}  // namespace

void add_eval_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command =
      app.add_subcommand("eval", "Measures test accuracy and loss of a model with given weights.");
  auto state = std::make_shared<EvalCommand>();
  state->plan_flags.default_workers = 1;
  add_model_flags(*command, state->plan_flags);
  add_cut_flags(*command, state->plan_flags);
  add_crew_flags(*command, state->crew_flags);
  command->add_option("--weights", state->weights, "As kerf train wrote them")
      ->type_name("FILE.safetensors")
      ->required();
  command
      ->add_option("--data", state->data,
                   "fashion-mnist[:FOLDER] or synthetic[:ROWSxFEATURESxCLASSES]")
      ->capture_default_str();
  command->add_flag("--json", state->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  kerf eval lenet5 --weights kerf-run/weights.safetensors\n"
      "  kerf eval mlp --sizes 784-512-10 --weights w.safetensors --workers 2 --cut feature "
      "--json");
  command->callback([&chosen, state] { chosen.run = [state] { return state->run(); }; });
}

}  // namespace kerf::apps
