// kerf schedule: look at a schedule, prove it, keep it as text.
#include <memory>
#include <utility>

#include "apps/kerf/answer.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/flag_values.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/planned.h"
#include "apps/kerf/proof.h"
#include "apps/report/table.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "schedmp/schedules.h"
#include "schedmp/staircase.h"
#include "schedmp/verify.h"

namespace kerf::apps {

namespace {

constexpr int kRefuted = 1;  // exit code

struct ScheduleCommand {
  PlanFlags flags;
  std::string plan_file;
  bool with_plan = false;
  std::string needs_plan;  // a flag that says nothing without one
  std::string out;
  bool json = false;

  int run();

 private:
  schedmp::Schedule without_plan() const;
  Json report() const;
  std::string text(bool colour) const;

  schedmp::Schedule schedule_;
  partitioner::StageGraph graph_;  // of its stages
  int slots_ = 0;
  std::vector<std::string> problems_;
  std::optional<schedmp::Verdict> verdict_;  // where there is a plan
};

// One worker per stage, unless the file says otherwise.
schedmp::Schedule ScheduleCommand::without_plan() const {
  require(needs_plan.empty(), needs_plan, "it needs --model or --plan");
  check_range(flags.workers, "--workers", kMostWorkers);
  check_range(flags.micro_batches, "--micro-batches", partitioner::kMostMicroBatches);
  const int workers = flags.workers.value_or(flags.default_workers);
  const int micro_batches = flags.micro_batches.value_or(8);
  std::vector<std::vector<int>> groups;
  for (int worker = 0; worker < workers; ++worker) groups.push_back({worker});
  return find_schedule(flags, flags.schedule.value_or(flags.default_schedule),
                       partitioner::chain_of(std::move(groups)), micro_batches);
}

int ScheduleCommand::run() {
  if (!with_plan) {
    schedule_ = without_plan();
    graph_ = partitioner::chain_of_stages(schedule_.stages());
    problems_ = schedmp::check_order(schedule_);
    if (problems_.empty()) problems_ = schedmp::check_waits(schedule_, graph_);
  } else {
    const Planned planned = planned_by(flags, plan_file);
    slots_ = planned.setting.slots;
    schedule_ = schedule_of(flags, planned);
    graph_ = partitioner::stage_graph_of(planned.model, planned.plan);
    Proof proof = prove(planned, schedule_);
    problems_ = std::move(proof.problems);
    verdict_ = std::move(proof.verdict);
  }
  if (!out.empty()) runtime::write_file_atomic(out, schedmp::write_schedule(schedule_));
  answer(
      json, [&] { return report(); }, [&](bool colour) { return text(colour); });
  if (problems_.empty()) return 0;
  // The answer is no; whoever asked did nothing wrong.
  return complain(format("schedule {}: refuted: {}", flags.schedule.value_or(schedule_.name),
                         fmt::join(problems_, "; ")),
                  kRefuted);
}

Json ScheduleCommand::report() const {
  const schedmp::Bubble idle = schedmp::bubble(schedule_, graph_);
  Json rows = Json::array();
  for (const auto& row : schedule_.rows) {
    Json actions = Json::array();
    for (const auto& action : row) actions.push_back(schedmp::to_string(action));
    rows.push_back(std::move(actions));
  }
  Json answer{{"name", schedule_.name},
              {"workers", schedule_.workers()},
              {"stages", schedule_.stages()},
              {"micro_batches", schedule_.micro_batches},
              {"groups", schedule_.groups},
              {"rows", std::move(rows)},
              {"bubble", {{"makespan", idle.makespan}, {"span", idle.span}}},
              {"proved", problems_.empty()},
              {"problems", problems_}};
  if (verdict_) {
    answer["slots"] = slots_;
    answer["smallest_safe_slots"] = verdict_->smallest_safe_slots;
    answer["held"] = verdict_->held;
    answer["peak_bytes"] = verdict_->peak_bytes;
  }
  return answer;
}

std::string ScheduleCommand::text(bool colour) const {
  const schedmp::Bubble idle = schedmp::bubble(schedule_, graph_);
  std::string text =
      format("{}: {}, {}, {}\n\n{}\n", schedule_.name, plural(schedule_.workers(), "worker"),
             plural(schedule_.stages(), "stage"), plural(schedule_.micro_batches, "micro-batch"),
             schedmp::draw_staircase(schedule_, graph_));
  text += format("idle: {} of the step, {} between each worker's first and last action\n",
                 human_percent(idle.makespan), human_percent(idle.span));
  if (problems_.empty())
    text +=
        verdict_
            ? format("proved: every action once, legal order, no deadlock with {}\n",
                     plural(slots_, "slot"))
            : "proved: every action once, legal order, a chain of stages ends (--model or --plan "
              "to prove more)\n";
  if (verdict_ && problems_.empty()) {
    text += verdict_->smallest_safe_slots == 0
                ? "safe even when every send waits for its receive\n"
                : format("needs at least {}\n", plural(verdict_->smallest_safe_slots, "slot"));
    Table table({"worker", "peak"});
    for (size_t worker = 0; worker < verdict_->peak_bytes.size(); ++worker)
      table.add(
          {format("{}", worker), human_bytes(static_cast<double>(verdict_->peak_bytes[worker]))});
    text += "\n" + table.text(colour);
  }
  if (!out.empty()) text += format("\nschedule  {}\n", out);
  return text;
}

// Those that a schedule by itself has no use for.
std::vector<CLI::Option*> add_plan_flags(CLI::App& command, PlanFlags& flags) {
  std::vector<CLI::Option*> all = add_division_flags(command, flags);
  for (CLI::Option* option : add_size_flags(command, flags)) all.push_back(option);
  for (CLI::Option* option : add_setting_flags(command, flags)) all.push_back(option);
  return all;
}

}  // namespace

void add_schedule_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "schedule",
      "Draws a pipeline schedule, proves or refutes it, and says how idle it leaves the workers.");
  auto state = std::make_shared<ScheduleCommand>();
  state->flags.default_workers = 4;
  command->add_option(
      "NAME", state->flags.schedule,
      format("{} or a file (default: the plan's, or {})",
             fmt::join(schedmp::schedule_names(), ", "), state->flags.default_schedule));
  CLI::Option* model =
      command->add_option("--model", state->flags.model, "Prove it for a cut of this model");
  CLI::Option* plan = add_plan_file_flag(*command, state->plan_file);
  add_count_flags(*command, state->flags);
  const std::vector<CLI::Option*> of_plan = add_plan_flags(*command, state->flags);
  command->add_option("--out", state->out, "Write the schedule's text here")->type_name("FILE");
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf schedule 1f1b --workers 4 --micro-batches 8\n"
      "  kerf schedule gpipe --workers 2 --micro-batches 4 --out mine.txt   edit it, then\n"
      "  kerf schedule mine.txt --model lenet5 --workers 2");
  command->callback([&chosen, state, model, plan, of_plan] {
    state->with_plan = model->count() + plan->count() > 0;
    for (const CLI::Option* option : of_plan)
      if (option->count() > 0) state->needs_plan = option->get_name();
    chosen.run = [state] { return state->run(); };
  });
}

}  // namespace kerf::apps
