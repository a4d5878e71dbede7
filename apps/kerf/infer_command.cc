// kerf infer: answers of an ONNX model for inputs in files, streamed through the pipeline.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "apps/data/given_inputs.h"
#include "apps/given_weights.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/run_flags.h"
#include "apps/kerf/run_training.h"
#include "apps/kerf/share_folder.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/report/asked_record.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kDefaultBatch = 8;

struct InferCommand {
  PlanFlags plan_flags;
  CrewFlags crew_flags;
  std::string plan_file;
  std::string weights;
  std::vector<std::string> inputs;
  std::string output;
  bool json = false;

  int run();

 private:
  Planned plan();
};

// Outputs' names may have slashes.
std::string file_name(const std::string& result) {
  std::string name = result;
  std::replace(name.begin(), name.end(), '/', '_');
  return name + ".npy";
}

// Whether operators may be put together: nothing names them by what `kerf plan` calls them, be it a
// plan, shares, steering or a profile, and the kernels of what they become are the processor's.
bool may_fuse(const PlanFlags& flags, const std::string& plan_file) {
  return plan_file.empty() && flags.cut.value_or("layer") == "layer" &&
         !flags.steering.names_operators() && flags.profile.empty() && flags.assign.empty() &&
         std::all_of(flags.devices.begin(), flags.devices.end(),
                     [](auto kind) { return kind == runtime::DeviceKind::kCpu; });
}

// That every output has a file of its own.
void check_files(const Planned& planned) {
  std::map<std::string, std::string> by_file;
  const auto check = [&](const std::string& output) {
    const auto [before, fresh] = by_file.emplace(file_name(output), output);
    if (!fresh)
      throw Error(ErrorCode::kUsage,
                  format("the outputs {} and {} would both be written to {}; rename one of them in "
                         "the file",
                         before->second, output, before->first),
                  planned.model.name());
  };
  for (const partitioner::Result& result : planned.model.results()) check(result.name);
  for (const auto& constant : planned.constants) check(constant.first);
}

void check_results(const Planned& planned) {
  if (planned.model.loss() >= 0)
    throw Error(ErrorCode::kUsage,
                "it has a loss; answers are those of an ONNX file without --loss",
                planned.model.name());
  for (const partitioner::Result& result : planned.model.results()) {
    const partitioner::Value& value = planned.model.value(result.value);
    if (value.spec.shape.batch_axis() != 0)
      throw Error(ErrorCode::kUsage,
                  format("output {} has the shape {}, but its first axis must be the batch",
                         result.name, ops::to_string(value.spec.shape)),
                  planned.model.name());
    for (const ops::Share& share : planned.plan.layouts[static_cast<size_t>(result.value)].shares)
      if (share.partial())
        throw Error(ErrorCode::kUsage,
                    format("this cut leaves partial sums of the output {}; choose --cut layer",
                           result.name),
                    planned.model.name());
  }
}

// A data set of its own kind has rows of as many features; what is named for an input has its axes
// and its element type.
void check_given(const partitioner::Model& model, const schedmp::Dataset& given) {
  for (partitioner::ValueId id = 0; id < model.values(); ++id) {
    const partitioner::Value& value = model.value(id);
    if (value.role != ops::Role::kInput) continue;
    const auto has = given.input(value.name);
    if (!has || *has == value.spec) continue;
    const bool axes = has->shape != value.spec.shape;
    throw Error(
        ErrorCode::kUsage,
        format("{} is given as {} {}, but {} has {} {}; {}", value.name, ops::to_string(has->dtype),
               ops::to_string(has->shape), model.name(), ops::to_string(value.spec.dtype),
               ops::to_string(value.spec.shape),
               axes ? "give the axes in that order"
                    : format("save it by .astype(\"{}\")", ops::to_string(value.spec.dtype))),
        "--input");
  }
}

void write_answers(const Planned& planned, const fs::path& shares, const fs::path& output,
                   int64_t rows) {
  for (const partitioner::Result& result : planned.model.results()) {
    const ops::ValueSpec& spec = planned.model.value(result.value).spec;
    const ops::Shape shape = spec.shape.with_batch(rows);
    NpyWriter file(output / file_name(result.name), spec.dtype,
                   std::span(shape.begin(), shape.end()));
    schedmp::join_result(planned.model, planned.plan, result, shares,
                         [&](std::span<const std::byte> some) { file.write(some); });
    file.commit();
  }
  for (const auto& [name, constant] : planned.constants) {
    NpyWriter file(output / file_name(name), constant.dtype,
                   std::span(constant.shape.begin(), constant.shape.end()));
    file.write(std::as_bytes(std::span(constant.bytes)));
    file.commit();
  }
}

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Whether the flags ask for one stage: then there is nobody for whom to take a batch apart.
bool asks_for_one_stage(const PlanFlags& flags) {
  const bool one_worker = flags.workers.value_or(flags.default_workers) == 1 &&
                          flags.steering.devices.empty() && !flags.steering.stages_per_worker;
  return one_worker || flags.cut == "feature" || flags.stages == 1;
}

Planned InferCommand::plan() {
  plan_flags.run_on(crew_flags);
  plan_flags.momentum = 0;  // nothing is updated
  if (!plan_flags.schedule) plan_flags.schedule = plan_flags.default_schedule;
  if (plan_file.empty()) {
    if (!plan_flags.batch && plan_flags.given_sizes.empty()) plan_flags.batch = kDefaultBatch;
    if (!plan_flags.micro_batches && is_built_in(*plan_flags.schedule) &&
        asks_for_one_stage(plan_flags))
      plan_flags.micro_batches = 1;
  }
  plan_flags.answers = may_fuse(plan_flags, plan_file);
  Planned planned = planned_by(plan_flags, plan_file);
  check_results(planned);
  check_files(planned);
  crew_flags.threads = planned.setting.threads;
  return planned;
}

// Where answers go. What killed runs had begun to write there goes.
void make_folder(const fs::path& output) {
  std::error_code failed;
  fs::create_directories(output, failed);
  if (!fs::is_directory(output))
    throw Error(ErrorCode::kUsage,
                format("this is no folder and cannot become one: {}", failed.message()),
                output.string());
  runtime::remove_abandoned_files(output);
}

int InferCommand::run() {
  const std::string given = existing_weights(weights);
  const Planned planned = plan();
  tell_notes(check_weights(planned.model, planned.source, planned.folded, given));
  const std::string data = given_inputs_name(inputs, planned.model, "--input");
  const auto given_rows =
      std::make_shared<GivenInputs>(data, schedmp::DataRequest{{}, &planned.model});
  check_given(planned.model, *given_rows);
  make_folder(output);
  const ShareFolder shares(output);
  schedmp::TrainingOptions options = options_of(RunKind::kEvaluate, planned);
  options.dataset = data;
  options.weights = given;
  options.results = shares.path();
  const Outcome outcome =
      run_training(RunKind::kEvaluate, planned, fitting_schedule_of(plan_flags, planned).schedule,
                   options, {nullptr, given_rows}, crew_flags);
  const int64_t rows = outcome.training->evaluations().back().rows;
  write_answers(planned, shares.path(), output, rows);
  check_traffic(record_of(planned, outcome));

  const double latency = median(batch_seconds(outcome));
  const double throughput = static_cast<double>(rows) / outcome.training->seconds_between();
  std::vector<std::string> files;
  for (const partitioner::Result& result : planned.model.results())
    files.push_back((fs::path(output) / file_name(result.name)).string());
  for (const auto& constant : planned.constants)
    files.push_back((fs::path(output) / file_name(constant.first)).string());
  answer_of_run(
      json, outcome.data_encrypted,
      [&] {
        Json told{{"model", planned.model.name()},
                  {"rows", rows},
                  {"batch", planned.plan.batch},
                  {"micro_batches", planned.plan.micro_batches},
                  {"workers", planned.plan.workers_bound()},
                  {"latency_seconds", latency},
                  {"rows_per_second", throughput},
                  {"outputs", files}};
        add_asked(planned.plan, told);
        return told;
      },
      [&](bool) {
        return format(
            "{} answered in batches of {} over {}: {} each (median), {:.1f} rows a "
            "second\n{}\n",
            plural(rows, "row"), planned.plan.batch, plural(planned.plan.workers_bound(), "worker"),
            human_seconds(latency), throughput, fmt::join(files, "\n"));
      });
  return 0;
}

}  // namespace

void add_infer_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "infer", "Computes what an ONNX model answers, and writes each output as an .npy file.");
  auto state = std::make_shared<InferCommand>();
  state->plan_flags.default_workers = 1;
  state->plan_flags.default_schedule = "forward-only";
  add_model_flags(*command, state->plan_flags);
  add_cut_flags(*command, state->plan_flags);
  add_crew_flags(*command, state->crew_flags);
  add_threads_flag(*command, state->crew_flags);
  add_plan_file_flag(*command, state->plan_file);
  add_weights_flag(*command, state->weights,
                   "Instead of the model's own: as kerf train wrote them");
  command->add_option("--input", state->inputs, "An input and its rows (once for each input)")
      ->required()
      ->allow_extra_args(false)
      ->type_name("NAME=FILE.npy");
  command->add_option("--output", state->output, "The folder that outputs are written to")
      ->required()
      ->type_name("DIR");
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf infer resnet18.onnx --input image=x.npy --output answers\n"
      "  kerf infer resnet18.onnx --workers 3 --batch 1 --input image=x.npy --output answers "
      "--json");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
