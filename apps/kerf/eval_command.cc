// kerf eval: test accuracy and loss of given weights: a run of its own kind, forward only.
#include <memory>

#include "apps/data/datasets.h"
#include "apps/given_weights.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/run_flags.h"
#include "apps/kerf/run_training.h"
#include "apps/main/answer.h"
#include "apps/report/asked_record.h"
#include "apps/report/json_fields.h"

namespace kerf::apps {

namespace {

struct EvalCommand {
  PlanFlags plan_flags;
  CrewFlags crew_flags;
  std::string plan_file;
  std::string weights;
  std::string data = "fashion-mnist";
  bool json = false;

  int run();
};

void check_has_weights(const partitioner::Model& model) {
  for (const partitioner::ValueId id : model.kept_values())
    if (!has_contents(model.value(id))) throw_no_weights(model, model.value(id));
}

int EvalCommand::run() {
  const std::string given = existing_weights(weights);
  plan_flags.run_on(crew_flags);
  plan_flags.optimizer = "sgd";  // nothing is updated
  plan_flags.momentum = 0;
  if (!plan_flags.schedule) plan_flags.schedule = plan_flags.default_schedule;  // a plan's trains
  const Planned planned = planned_by(plan_flags, plan_file);
  if (given.empty()) check_has_weights(planned.model);
  tell_notes(check_weights(planned.model, planned.source, planned.folded, given));
  crew_flags.threads = planned.setting.threads;
  schedmp::TrainingOptions options = options_of(RunKind::kEvaluate, planned);
  require_loss(planned.model);
  options.dataset = complete_dataset_name(data, planned.model, planned.plan.batch);
  options.weights = given;
  const schedmp::OpenSplits splits = open_data(RunKind::kEvaluate, planned, options);
  const Outcome outcome =
      run_training(RunKind::kEvaluate, planned, fitting_schedule_of(plan_flags, planned).schedule,
                   options, splits, crew_flags);

  const RunRecord record = record_of(planned, outcome);
  const RunRecord::Evaluation& found = record.evaluations.back();
  answer_of_run(
      json, record.data_encrypted,
      [&] {
        Json told{{"model", record.plan.model},
                  {"data", record.data},
                  {"rows", found.rows},
                  {"correct", found.of_classes ? to_json(found.correct) : Json(nullptr)},
                  {"accuracy", to_json(found.accuracy())},
                  {"top5", to_json(found.top5())},
                  {"loss", to_json(found.loss)},
                  {"perplexity", to_json(found.perplexity())}};
        add_asked(planned.plan, told);
        return told;
      },
      [&](bool colour) { return accuracy_text(record, colour); });
  check_traffic(record);
  return 0;
}

}  // namespace

void add_eval_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command =
      app.add_subcommand("eval", "Measures test accuracy and loss of a model with given weights.");
  auto state = std::make_shared<EvalCommand>();
  state->plan_flags.default_workers = 1;
  state->plan_flags.default_schedule = "forward-only";
  add_model_flags(*command, state->plan_flags);
  add_cut_flags(*command, state->plan_flags);
  add_crew_flags(*command, state->crew_flags);
  add_threads_flag(*command, state->crew_flags);
  add_plan_file_flag(*command, state->plan_file);
  add_weights_flag(*command, state->weights,
                   "As kerf train wrote them (default: an ONNX file's own)");
  add_data_flag(*command, state->data);
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf eval lenet5 --weights kerf-run/weights.safetensors\n"
      "  kerf eval mlp --sizes 784-512-10 --weights w.safetensors --workers 2 --cut feature "
      "--json\n"
      "  kerf eval resnet18.onnx --loss cross-entropy --data photos.npz");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
