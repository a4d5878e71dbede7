#include "apps/kerf/schedule_sweep.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "apps/kerf/cost_flags.h"
#include "apps/kerf/schedule_flags.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/report/sign_of_life.h"
#include "apps/report/sweep_picture.h"
#include "apps/report/sweep_record.h"
#include "apps/report/table.h"
#include "partitioner/plan.h"
#include "runtime/file.h"
#include "schedmp/action_costs.h"
#include "schedmp/schedules.h"
#include "schedmp/sweep.h"

namespace kerf::apps {

namespace {

constexpr size_t kMostPoints = 10'000;
constexpr double kMostActions = 5e8;  // of all points together: some minutes

struct SweepCommand {
  std::string names;
  std::string workers = "4";
  std::string micro_batches = "4:64:*2";
  std::optional<int> chunks;
  std::vector<std::string> costs, links;
  CostFlags messages;  // of all links
  std::string plotted = "bubble";
  std::string csv, svg;
  bool json = false;

  int run() const;

 private:
  schedmp::Sweep sweep_of(SweepRecord& record) const;
  void add_settings(schedmp::Sweep& sweep, SweepRecord& record) const;
  std::string write_files(const SweepRecord& record) const;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(at, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// A whole number from 1 on; nothing for all else.
std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool fine = fault == std::errc() && stop == text.data() + text.size() && number >= 1;
  return fine ? std::optional(number) : std::nullopt;
}

struct Range {
  int first = 1;
  int last = 1;
  int by = 1;
  bool times = false;  // each is the one before times `by`
};

std::optional<Range> range_of(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() > 3) return std::nullopt;
  const auto first = number_of(parts.front());
  const auto last = parts.size() > 1 ? number_of(parts[1]) : first;
  if (!first || !last || *last < *first) return std::nullopt;
  Range range{*first, *last};
  if (parts.size() < 3) return range;
  range.times = parts[2].starts_with('*');
  const auto by = number_of(std::string_view(parts[2]).substr(range.times ? 1 : 0));
  if (!by || (range.times && *by == 1)) return std::nullopt;
  range.by = *by;
  return range;
}

// As many as are told apart, at most; more of them are refused before there are so many.
std::vector<std::string> names_of(const std::string& text) {
  std::vector<std::string> names = split(text, ',');
  std::set<std::string> seen;
  for (const std::string& name : names) {
    at_flag("NAMES", [&] { return schedmp::shape_of(name); });
    require(seen.insert(name).second, "NAMES", format("{} is there twice", name));
  }
  return names;
}

void SweepCommand::add_settings(schedmp::Sweep& sweep, SweepRecord& record) const {
  std::vector<std::string> all_costs = costs, all_links = links;
  if (all_costs.empty()) all_costs.emplace_back();
  if (all_links.empty()) all_links.emplace_back();
  require(all_costs.size() * all_links.size() <= kMostPoints, "--costs",
          format("{} of them and {} links are more than {} combinations", all_costs.size(),
                 all_links.size(), kMostPoints));
  for (const std::string& each_costs : all_costs)
    for (const std::string& link : all_links) {
      CostFlags flags = messages;
      flags.costs = each_costs;
      if (!link.empty()) flags.link = link;
      sweep.costs.push_back(costs_of(flags));
      check_message_bytes(flags, sweep.costs.back());
      record.settings.push_back({each_costs, link});
    }
}

schedmp::Sweep SweepCommand::sweep_of(SweepRecord& record) const {
  schedmp::Sweep sweep;
  sweep.schedules = names_of(names);
  sweep.workers = numbers_within(workers, "--workers", kMostStageWorkers);
  sweep.micro_batches =
      numbers_within(micro_batches, "--micro-batches", partitioner::kMostMicroBatches);
  sweep.chunks = chunks.value_or(0);
  add_settings(sweep, record);
  require(sweep.points() <= kMostPoints, "sweep",
          format("{} combinations are more than {}; sweep over less", sweep.points(), kMostPoints));
  const double actions = schedmp::most_actions(sweep);
  require(
      actions <= kMostActions, "sweep",
      format("together {} would have {:.3g} actions, more than {:.3g}; sweep over fewer "
             "micro-batches or workers",
             plural(static_cast<int64_t>(sweep.points()), "combination"), actions, kMostActions));
  return sweep;
}

std::string SweepCommand::write_files(const SweepRecord& record) const {
  std::string written;
  const auto write = [&](const std::string& file, const char* what, const std::string& text) {
    runtime::write_file_atomic(file, text);
    written += format("{}{:<9} {}\n", written.empty() ? "\n" : "", what, file);
  };
  if (!csv.empty()) write(csv, "csv", csv_of(record));
  if (svg.empty()) return written;
  const auto picture =
      draw_sweep(record, plotted == "bubble" ? SweptQuantity::kBubble : SweptQuantity::kMakespan);
  require(picture.has_value(), "--svg",
          format("more than {} lines cannot be told apart; sweep over less", kMostLines));
  write(svg, "picture", *picture);
  return written;
}

int SweepCommand::run() const {
  SweepRecord record;
  const schedmp::Sweep sweep = sweep_of(record);
  {
    SignOfLife life(life_on_stderr());
    record.points = schedmp::swept(sweep, [&](double part) {
      life.tell("sweeping", format("{} of it", human_percent(part)));
    });
  }
  const std::string written = write_files(record);
  answer(
      json, [&] { return to_json(record); },
      [&](bool colour) { return text_of(record, colour) + written; });
  return 0;
}

void add_axes(CLI::App& command, SweepCommand& state) {
  command
      .add_option("NAMES", state.names,
                  format("Schedules, with commas: {}", fmt::join(schedmp::schedule_names(), ", ")))
      ->required()
      ->type_name("NAME[,NAME...]");
  command
      .add_option("--workers", state.workers,
                  "How many workers: numbers with commas, or ranges as in 2:8, 2:8:2 or 2:64:*2 "
                  "(default 4)")
      ->type_name("LIST");
  command
      .add_option("--micro-batches", state.micro_batches,
                  "How many micro-batches, likewise (default 4:64:*2)")
      ->type_name("LIST");
  command
      .add_option("--costs", state.costs,
                  "What F, I and W of a stage take, and a message (default 1,1,1,0): numbers, or a "
                  "file as of kerf schedule; may be repeated")
      ->allow_extra_args(false)
      ->type_name("F,I,W[,COMM]");
  command
      .add_option("--link", state.links,
                  "The link between any two workers, in place of COMM: what a message takes beside "
                  "its bytes, and bytes by that unit; may be repeated")
      ->allow_extra_args(false)
      ->type_name("LATENCY[,BANDWIDTH]");
}

}  // namespace

std::vector<int> numbers_within(const std::string& text, const std::string& flag, int most) {
  std::vector<int> numbers;
  std::set<int> seen;
  for (const std::string& part : split(text, ',')) {
    const auto range = range_of(part);
    require(range.has_value(), flag,
            format("'{}' is no whole number from 1 on, and no range FIRST:LAST, FIRST:LAST:STEP or "
                   "FIRST:LAST:*TIMES",
                   part));
    require(range->last <= most, flag, format("{} is not within 1 and {}", range->last, most));
    for (int64_t number = range->first; number <= range->last;
         number = range->times ? number * range->by : number + range->by) {
      if (seen.insert(static_cast<int>(number)).second) numbers.push_back(static_cast<int>(number));
      require(numbers.size() <= kMostPoints, flag,
              format("'{}' has more than {} numbers", text, kMostPoints));
    }
  }
  return numbers;
}

void add_schedule_sweep_command(CLI::App& schedule_command, Chosen& chosen) {
  CLI::App* command = schedule_command.add_subcommand(
      "sweep",
      "Simulates schedules at several sizes and under several costs: a table, a plot, or data.");
  auto state = std::make_shared<SweepCommand>();
  add_axes(*command, *state);
  command
      ->add_option("--chunks", state->chunks,
                   "Stages on each worker, of schedules that have several (default: two)")
      ->check(whole_number<int>(1, kMostStageWorkers))
      ->type_name("V");
  add_message_flags(*command, state->messages);
  command->add_option("--csv", state->csv, "Write the table here as CSV")->type_name("FILE");
  command
      ->add_option("--svg", state->svg,
                   "Draw it here, a line for each schedule, against micro-batches; of one number "
                   "of those, against workers")
      ->type_name("FILE");
  command
      ->add_option("--plot", state->plotted,
                   "What --svg draws: bubble, what is idle of a step, or makespan, what a step "
                   "takes (default bubble)")
      ->check(CLI::IsMember({"bubble", "makespan"}))
      ->type_name("WHAT");
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf schedule sweep 1f1b,zb-h1,zbv --workers 8 --micro-batches 8:128:*2 --svg bubble.svg\n"
      "  kerf schedule sweep 1f1b,interleaved --costs 1,1,1 --costs 1,1.5,0.5 --csv sweep.csv\n"
      "  kerf schedule sweep gpipe,1f1b --link 0,1e9 --link 0,1e8 --message-bytes 2e8");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
