// kerf export: a trained model as an ONNX file.
#include <filesystem>
#include <memory>

#include "apps/given_weights.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/plan_flags.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/run_flags.h"
#include "apps/kerf/run_folder.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/models.h"
#include "ops/initializer.h"
#include "partitioner/onnx/export.h"
#include "runtime/file.h"
#include "runtime/json.h"
#include "schedmp/safetensors.h"
#include "schedmp/training/stored_weights.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

struct ExportCommand {
  PlanFlags flags;  // of the model, or of a run's folder in its place
  std::string weights;
  std::string out;
  bool data_beside = false;

  int run();
  void take_run();

  std::string source;
};

// A run's folder says which model it was and how it was read, and has the weights.
void ExportCommand::take_run() {
  const fs::path folder = *flags.model;
  for (const std::string& flag : flags.given_flags())
    require(false, flag,
            format("{} is a run's folder, which says how its model was read; leave the flag out, "
                   "or name the model in its place, with --weights",
                   *flags.model));
  const std::string plan_file = (folder / kPlanFile).string();
  const Json plan = parse_json(runtime::read_file(plan_file, kMostPlan), plan_file);
  if (!plan.is_object() || !plan.contains("request"))
    throw Error(ErrorCode::kUsage, "it does not say of which model it is; name the model instead",
                plan_file);
  source = json_string(plan["request"], "source", plan_file + ": request");
  if (weights.empty()) weights = RunFolder(folder).weights().string();
}

std::string own_contents(const partitioner::Model& model, const partitioner::Value& value) {
  if (!has_contents(value)) throw_no_weights(model, value);
  std::string bytes(value.spec.bytes(0), '\0');
  auto* const data = reinterpret_cast<std::byte*>(bytes.data());
  const ops::Shape& shape = value.spec.shape;
  if (value.contents != nullptr)
    value.contents->read(0, {data, bytes.size()});
  else
    ops::initialize({value.spec.dtype, shape, data}, ops::Box::whole(shape.rank()), shape,
                    value.initializer, 0, 0);
  return bytes;
}

int ExportCommand::run() {
  std::error_code absent;
  if (flags.model && fs::is_directory(*flags.model, absent))
    take_run();
  else
    source = flags.source();
  const MadeModel made = make_plain_model(source);
  const partitioner::Model& model = made.model;
  std::unique_ptr<schedmp::StoredWeights> file;
  if (!weights.empty()) {
    tell_notes(check_weights(model, source, made.folded, existing_weights(weights)));
    file = std::make_unique<schedmp::StoredWeights>(weights);
  }
  partitioner::onnx::export_file(model,
                                 [&](const partitioner::Value& value) {
                                   return file != nullptr ? file->read(value)
                                                          : own_contents(model, value);
                                 },
                                 out, {.data_beside = data_beside, .constants = made.constants});
  tell_notes(made.notes);
  return 0;
}

}  // namespace

void add_export_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command =
      app.add_subcommand("export", "Writes a trained model as an ONNX file, for its answers.");
  auto state = std::make_shared<ExportCommand>();
  add_model_flags(*command, state->flags);
  add_weights_flag(*command, state->weights, "As kerf train wrote them (default: a run's)");
  command->add_option("--out", state->out, "The file to write")->required()->type_name("FILE.onnx");
  command->add_flag("--external-data", state->data_beside,
                    "Weights in a file of their own, FILE.onnx.CHECKSUM.data; as they are anyway "
                    "where all would take 2 GiB");
  command->footer(
      "Examples:\n"
      "  kerf export kerf-run --out lenet5.onnx\n"
      "  kerf export lenet5 --weights kerf-run/weights.safetensors --out lenet5.onnx");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
