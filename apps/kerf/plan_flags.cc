#include "apps/kerf/plan_flags.h"

#include "apps/kerf/device_list.h"
#include "apps/kerf/flag_values.h"
#include "apps/models.h"
#include "ops/optimizer.h"
#include "partitioner/cut.h"
#include "partitioner/zoo.h"
#include "runtime/channel.h"

namespace kerf::apps {

namespace {

std::string cut_help() {
  std::vector<std::string> lines;
  for (const partitioner::CutRow& row : partitioner::cuts())
    lines.push_back(format("{}: {}", row.name, row.help));
  return format("{}", fmt::join(lines, "; "));
}

constexpr int64_t kMostClasses = int64_t{1} << 24;

int64_t whole_extent(std::string text) {
  const std::string why = whole_number<int64_t>()(text);
  require(why.empty() && text != "0", "--dim", format("\"{}\" is no extent", text));
  return std::stoll(text);
}

}  // namespace

std::string PlanFlags::source() const {
  const std::string name = model.value_or("lenet5");
  if (!names_onnx_file(name)) {
    require(dims.empty(), "--dim", "it is for ONNX files only");
    require(train.empty(), "--train", "it is for ONNX files only");
    require(freeze.empty(), "--freeze", "it is for ONNX files only");
    require(loss.empty(), "--loss", "it is for ONNX files only");
    require(!head, "--head", "it is for ONNX files only");
    require(!norms, "--bn", "it is for ONNX files only");
    return model_source(name, sizes);
  }
  require(sizes.empty(), "--sizes", "an ONNX file has its sizes; leave the flag out");
  OnnxSource source{.file = name, .train = train, .freeze = freeze, .loss = loss};
  check_range(head, "--head", kMostClasses);
  source.head = head.value_or(0);
  source.train_batch_norms = norms == "train";
  for (const std::string& dim : dims) {
    const size_t equals = dim.find('=');
    require(equals != std::string::npos && equals > 0, "--dim", "write it as in T=128");
    source.dims[dim.substr(0, equals)] = whole_extent(dim.substr(equals + 1));
  }
  return model_source(source);
}

void PlanFlags::run_on(const CrewFlags& crew) {
  transport = crew.transport;
  threads = crew.threads;
  devices = device_kinds(crew);
}

void add_model_flags(CLI::App& command, PlanFlags& flags) {
  command.add_option("MODEL", flags.model,
                     format("{}, or an ONNX file (default lenet5, or a plan's)",
                            fmt::join(partitioner::zoo_names(), ", ")));
  add_sizes_flag(command, flags);
  command
      .add_option("--dim", flags.dims, "Of an ONNX file: the extent of an axis that it only names")
      ->allow_extra_args(false)
      ->type_name("NAME=N");
  command
      .add_option("--train", flags.train,
                  "Of an ONNX file: train these too (a pattern of names, as in 'head.*')")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  command
      .add_option("--loss", flags.loss,
                  "Of an ONNX file: the loss that its first output gets (cross-entropy)")
      ->check(CLI::IsMember({"cross-entropy"}))
      ->type_name("NAME");
  command
      .add_option("--head", flags.head, "Of an ONNX file: a new last layer, for so many classes")
      ->check(whole_number<int64_t>())
      ->type_name("CLASSES");
  command
      .add_option("--bn", flags.norms,
                  "Of an ONNX file: batch normalisations train, or stay as they are (default "
                  "frozen)")
      ->check(CLI::IsMember({"train", "frozen"}))
      ->type_name("train|frozen");
  command.add_option("--freeze", flags.freeze, "Of an ONNX file: do not train these")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
}

CLI::Option* add_sizes_flag(CLI::App& command, PlanFlags& flags) {
  return command
      .add_option("--sizes", flags.sizes,
                  "Of mlp: inputs, hidden layers, classes; of convnet: channels of each pair of "
                  "convolutions; of lstm-lm: tokens in a row, vocabulary, embedding, hidden units")
      ->type_name("784-512-512-10");
}

void add_count_flags(CLI::App& command, PlanFlags& flags) {
  command
      .add_option("--workers", flags.workers,
                  format("How many parts to cut into (default {}, or a schedule file's)",
                         flags.default_workers))
      ->check(whole_number<int>())
      ->type_name("N");
  command.add_option("--micro-batches", flags.micro_batches, "Parts of a step (default 8)")
      ->check(whole_number<int>())
      ->type_name("M");
}

std::vector<CLI::Option*> add_division_flags(CLI::App& command, PlanFlags& flags) {
  return {command.add_option("--cut", flags.cut, "Default layer. " + cut_help())
              ->check(parsed_by(partitioner::parse_cut))
              ->type_name("CUT"),
          command.add_option("--stages", flags.stages, "Of a hybrid cut (default 2)")
              ->check(whole_number<int>())
              ->type_name("N"),
          command.add_option("--batch", flags.batch, "Rows per step (default 128)")
              ->check(whole_number<int64_t>())
              ->type_name("ROWS"),
          command
              .add_option("--slots", flags.slots,
                          "Messages ahead per path, beyond what its two ends hold (default 2)")
              ->check(whole_number<int>())
              ->type_name("N")};
}

CLI::Option* add_plan_file_flag(CLI::App& command, std::string& file) {
  return command
      .add_option("--plan", file, "Use this plan, or that of a run's folder, instead of making one")
      ->type_name("FILE");
}

void add_cut_flags(CLI::App& command, PlanFlags& flags) {
  add_division_flags(command, flags);
  add_count_flags(command, flags);
  command
      .add_option("--schedule", flags.schedule,
                  format("gpipe, 1f1b or a file (default {})", flags.default_schedule))
      ->type_name("NAME");
  command.add_option("--memory", flags.memory, "Cap per worker, as in 500M or 1.5G")
      ->transform(byte_size())
      ->type_name("BYTES");
  command
      .add_option("--objective", flags.objective,
                  "What layer and hybrid cuts minimise: time (default) or forward-flops")
      ->type_name("NAME");
  command.add_option("--shares", flags.shares, "Of a free cut: which indices go to which worker")
      ->type_name("FILE");
}

void add_optimizer_flags(CLI::App& command, PlanFlags& flags) {
  command
      .add_option("--optimizer", flags.optimizer,
                  "sgd (default, or the plan's), adam or adamw: a state for each parameter with "
                  "momentum, two for adam and adamw")
      ->check(parsed_by([](const std::string& name) { ops::Optimizer({.name = name}); }))
      ->type_name("NAME");
  command
      .add_option("--momentum", flags.momentum, "Of sgd, in [0, 1) (default 0.9, or the plan's)")
      ->type_name("M");
}

std::vector<CLI::Option*> add_setting_flags(CLI::App& command, PlanFlags& flags) {
  return {
      command
          .add_option("--transport", flags.transport,
                      "What it will run over (default shm): with ipc and tcp, messages take memory "
                      "on both sides, with cuda whole blocks of 2 MiB")
          ->check(parsed_by(runtime::parse_transport))
          ->type_name("NAME"),
      command
          .add_option("--threads", flags.threads,
                      "Per worker (default 1): each takes scratch memory")
          ->check(whole_number<int>())
          ->type_name("N"),
      command
          .add_option_function<std::string>(
              "--device",
              [&flags](const std::string& text) { flags.devices = planned_devices(text); },
              "What workers will compute on, in turn: cpu or cuda, with commas (default cpu): "
              "each kind takes its own scratch memory")
          ->check(parsed_by(planned_devices))
          ->type_name("DEVICE[,...]")};
}

}  // namespace kerf::apps
