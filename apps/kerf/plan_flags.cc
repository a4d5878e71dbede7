#include "apps/kerf/plan_flags.h"

#include <algorithm>

#include "apps/kerf/flag_rules.h"
#include "apps/kerf/planned_setting.h"
#include "apps/main/device_list.h"
#include "apps/main/flag_values.h"
#include "ops/optimizer.h"
#include "partitioner/cut.h"
#include "runtime/channel.h"
#include "schedmp/schedules.h"

namespace kerf::apps {

namespace {

std::string cut_help() {
  std::vector<std::string> lines;
  for (const partitioner::CutRow& row : partitioner::cuts())
    lines.push_back(format("{}: {}", row.name, row.help));
  lines.push_back(
      format("{}: of all of these the plan whose step is simulated to take least", kAutoCut));
  return format("{}", fmt::join(lines, "; "));
}

void parse_cut_or_auto(const std::string& name) {
  if (name == kAutoCut) return;
  try {
    partitioner::parse_cut(name);
  } catch (const Error& error) {
    throw Error(error.code(), format("{}, {}", error.message(), kAutoCut));
  }
}

int64_t rows_of_entry(const std::string& text, size_t number) {
  int64_t rows = 0;
  std::string digits = text;  // a check may change what it is given
  if (whole_number<int64_t>()(digits).empty()) rows = std::stoll(text);
  if (rows < 1 || rows > partitioner::kMostRows)
    throw Error(ErrorCode::kUsage, format("entry {}, \"{}\", is no whole number within 1 and {}",
                                          number, text, partitioner::kMostRows));
  return rows;
}

// How many, or the rows of each.
void take_micro_batches(const std::string& text, PlanFlags& flags) {
  flags.given_sizes.clear();
  if (text.find(',') == std::string::npos) {
    std::string number = text;
    if (const std::string wrong = whole_number<int>(1, partitioner::kMostMicroBatches)(number);
        !wrong.empty())
      throw Error(ErrorCode::kUsage, wrong + ", nor the rows of each with commas, as in 32,16,8,8");
    flags.micro_batches = std::stoi(text);
    return;
  }
  int64_t sum = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t number = flags.given_sizes.size() + 1;
    sum += flags.given_sizes.emplace_back(rows_of_entry(text.substr(begin, end - begin), number));
    if (number > static_cast<size_t>(partitioner::kMostMicroBatches) ||
        sum > partitioner::kMostRows)
      throw Error(ErrorCode::kUsage,
                  format("with entry {} it is more than {} micro-batches, or than {} rows", number,
                         partitioner::kMostMicroBatches, partitioner::kMostRows));
    begin = end + 1;
  }
  flags.micro_batches = static_cast<int>(flags.given_sizes.size());
}

bool parse_pairs(const std::string& text) {
  if (text != "on" && text != "off")
    throw Error(ErrorCode::kUsage, format("there is no \"{}\"; it is on or off", text));
  return text == "on";
}

void check_micro_batches(const std::string& text) {
  PlanFlags none;
  take_micro_batches(text, none);
}

}  // namespace

void PlanFlags::run_on(const CrewFlags& crew) {
  transport = crew.transport;
  threads = crew.threads;
  devices = device_kinds(crew);
}

void add_count_flags(CLI::App& command, PlanFlags& flags, int most_workers) {
  flags.command = &command;
  command
      .add_option("--workers", flags.workers,
                  format("How many parts to cut into (default {}, or a schedule file's)",
                         flags.default_workers))
      ->check(whole_number<int>(1, most_workers))
      ->type_name("N");
  command
      .add_option_function<std::string>(
          "--micro-batches", [&flags](const std::string& text) { take_micro_batches(text, flags); },
          "Parts of a step (default 8); or, of a model's step, the rows of each, as in 32,16,8,8")
      ->check(parsed_by(check_micro_batches))
      ->type_name("M|ROWS,...");
}

std::vector<CLI::Option*> add_division_flags(CLI::App& command, PlanFlags& flags) {
  return {
      command.add_option("--cut", flags.cut, "Default layer. " + cut_help())
          ->check(parsed_by(parse_cut_or_auto))
          ->type_name("CUT"),
      command.add_option("--stages", flags.stages, help_for("--stages", "how many (default 2)"))
          ->check(whole_number<int>(1, kMostWorkers))
          ->type_name("N"),
      command
          .add_option("--batch", flags.batch,
                      "Rows per step (default 128, or as many as --micro-batches has)")
          ->check(whole_number<int64_t>(1, partitioner::kMostRows))
          ->type_name("ROWS"),
      command
          .add_option(
              "--slots", flags.slots,
              "Messages ahead per path, beyond what its two ends hold (default 2, or as many as "
              "the schedule needs)")
          ->check(whole_number<int>(1, kMostSlots))
          ->type_name("N")};
}

CLI::Option* add_plan_file_flag(CLI::App& command, std::string& file) {
  return command
      .add_option("--plan", file, "Use this plan, or that of a run's folder, instead of making one")
      ->type_name("FILE");
}

CLI::Option* add_memory_flag(CLI::App& command, PlanFlags& flags) {
  return command.add_option("--memory", flags.memory, "Cap per worker, as in 500M or 1.5G")
      ->transform(byte_size())
      ->type_name("BYTES");
}

void add_cut_flags(CLI::App& command, PlanFlags& flags) {
  add_division_flags(command, flags);
  add_count_flags(command, flags);
  command
      .add_option("--schedule", flags.schedule,
                  format("{} or a file (default {})", fmt::join(schedmp::schedule_names(), ", "),
                         flags.default_schedule))
      ->type_name("NAME");
  add_memory_flag(command, flags);
  command
      .add_option("--objective", flags.objective,
                  "What a search minimises, and what bottlenecks are told in: time (default) or "
                  "forward-flops")
      ->type_name("NAME");
  command
      .add_option("--shares", flags.shares,
                  help_for("--shares", "which indices go to which worker"))
      ->type_name("FILE");
  add_steering_flags(command, flags.steering);
  command
      .add_option_function<std::string>(
          "--pairs", [&flags](const std::string& text) { flags.pairs = parse_pairs(text); },
          help_for("--pairs",
                   "on (default) divides what follows a divided product by its inputs where "
                   "its results are fewer, and sends those as partial sums; off divides "
                   "every product by its outputs"))
      ->check(parsed_by(parse_pairs))
      ->type_name("on|off");
  command
      .add_option(
          "--profile", flags.profile,
          "Take the times that kerf profile measured, or a run (its folder), for those that "
          "follow from costs")
      ->type_name("FILE");
}

void add_optimizer_flags(CLI::App& command, PlanFlags& flags, Optimizers which) {
  const bool all = which == Optimizers::kAll;
  std::string help =
      "sgd (default, or the plan's), adagrad, adam or adamw: a state for each parameter with "
      "momentum and for adagrad, two for adam and adamw";
  if (all)
    help +=
        "; or lbfgs: --steps iterations (default 100) over all rows, in portions of --batch that "
        "go to whichever of --replicas is free (Sandblaster)";
  command.add_option("--optimizer", flags.optimizer, help)
      ->check(parsed_by([all](const std::string& name) {
        if (!all || name != kLbfgs) ops::Optimizer({.name = name});
      }))
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
          ->check(whole_number<int>(1, kMostThreads))
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
