// kerf plan: cut a model and say what it costs, without running anything.
#include <memory>
#include <optional>

#include "apps/kerf/commands.h"
#include "apps/kerf/flag_rules.h"
#include "apps/kerf/plan_check.h"
#include "apps/kerf/plan_front.h"
#include "apps/kerf/plan_graph.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/plan_search_flags.h"
#include "apps/kerf/planned.h"
#include "apps/kerf/replan.h"
#include "apps/kerf/restart_memory.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/report/asked_record.h"
#include "apps/report/json_fields.h"
#include "apps/report/plan_certificate.h"
#include "apps/report/plan_record.h"
#include "apps/report/plan_why.h"
#include "apps/report/tried_plans.h"
#include "partitioner/complete_plan.h"
#include "partitioner/graph_formats.h"
#include "partitioner/model_graph.h"
#include "partitioner/picture.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "schedmp/action_costs.h"
#include "schedmp/search/plan_costs.h"

namespace kerf::apps {

namespace {

// What is told of a plan beside what was written.
struct Told {
  PlanRecord record;
  std::vector<partitioner::Boundary> boundaries;
  std::optional<Replan> replan;
  std::optional<RestartMemory> kept = {};  // of what trains
};

struct PlanCommand {
  const CLI::App* command = nullptr;
  PlanFlags flags;
  std::string graph_format;  // of a graph that is no model
  std::string from_run;      // its folder
  std::string out;
  std::string picture;
  std::optional<int> open;  // stage
  SearchFlags search;
  bool decisions = false;
  bool why = false;
  bool json = false;

  int run() const;

 private:
  std::string drawn(const Planned& planned, const PlanRecord& record) const;
  void write(const Planned& planned, const PlanRecord& record) const;
  Json for_programs(const Planned& planned, const Told& of) const;
  std::string for_people(const Planned& planned, const Told& of, bool colour) const;
};

// With the peaks of the table, which are proved under the schedule that will run.
std::string PlanCommand::drawn(const Planned& planned, const PlanRecord& record) const {
  partitioner::Plan plan = planned.plan;
  for (partitioner::WorkerPrediction& worker : plan.workers)
    worker.peak_bytes = record.peak_bytes(worker);
  try {
    return partitioner::draw_svg(planned.model, plan, open);
  } catch (const Error& error) {
    throw Error(error.code(), error.message(), "--open");
  }
}

// Of a model's plan what graphs that are no models have, too.
void add_certificate(const Planned& planned, Json& told) {
  const partitioner::Plan& plan = planned.plan;
  std::vector<std::string> names;
  for (partitioner::NodeId node = 0; node < planned.model.nodes(); ++node)
    names.push_back(planned.model.node(node).name);
  told["lower_bound"] = plan.bound ? Json(*plan.bound) : Json();
  told["certificate"] =
      plan.bound ? certificate_json(plan.bottleneck, {*plan.bound, plan.witness.text}) : Json();
  told["assignment"] =
      assignment_json(names, partitioner::stages_of_nodes(plan, planned.model.nodes()));
  told["plan_seconds"] = planned.plan_seconds;
}

Json PlanCommand::for_programs(const Planned& planned, const Told& of) const {
  Json told = to_json(of.record);
  add_asked(planned.plan, told);
  add_certificate(planned, told);
  if (!planned.tried.empty()) told["tried"] = tried_json(planned.tried);
  if (of.kept)
    told["kept"] = {{"bytes", of.kept->bytes},
                    {"forbidden", of.kept->forbidden.empty() ? Json() : Json(of.kept->forbidden)}};
  if (why) told["why"] = why_json(planned.model, of.boundaries);
  if (of.replan) told["from_run"] = replan_json(*of.replan);
  if (!out.empty()) told["out"] = out;
  if (!picture.empty()) told["picture"] = picture;
  return told;
}

std::string PlanCommand::for_people(const Planned& planned, const Told& of, bool colour) const {
  std::string text = asked_text(asked_of(planned.plan)) + plan_text(of.record, colour);
  if (of.kept) text += kept_text(*of.kept) + "\n";
  if (!planned.tried.empty()) text += tried_text(planned.tried, colour);
  if (why) text += why_text(planned.model, planned.plan, of.boundaries, colour);
  if (of.replan) text += replan_text(*of.replan, planned, colour);
  if (!out.empty()) text += format("plan     {}\n", out);
  if (!picture.empty()) text += format("picture  {}\n", picture);
  return text;
}

// On the devices that it is planned for, which a plan forgets.
std::vector<partitioner::Boundary> boundaries_of(const PlanFlags& asked, const Planned& planned) {
  partitioner::Plan plan = planned.plan;
  require(plan.replicas() == 1, "--why",
          "it moves boundaries of one replica; choose a schedule without replicas");
  if (plan.request) plan.request->setting = planned.setting;
  return partitioner::boundaries_of(planned.model, plan, *in_flight_of(asked, plan.schedule));
}

// Of a run whose workers are all on one host.
std::optional<RestartMemory> kept_as_planned(const PlanRecord& record, const Planned& planned) {
  if (record.kept_bytes.empty()) return std::nullopt;
  std::vector<int64_t> taken;
  for (const partitioner::WorkerPrediction& worker : record.workers)
    taken.push_back(record.peak_bytes(worker));
  return restart_memory(taken, record.kept_bytes, planned.setting.devices, planned.memory, {});
}

void PlanCommand::write(const Planned& planned, const PlanRecord& record) const {
  const auto form = decisions ? partitioner::PlanText::kDecisions : partitioner::PlanText::kWhole;
  if (!search.graph_out.empty())
    runtime::write_file_atomic(search.graph_out,
                               partitioner::write_costs(partitioner::cost_graph_of(
                                   planned.model, partitioner::request_of_plan(planned.plan))));
  if (!search.stage_costs.empty())
    runtime::write_file_atomic(
        search.stage_costs,
        schedmp::write_costs(schedmp::costs_of_plan(
            planned.model, planned.plan,
            partitioner::lower(planned.model, planned.plan, {.in_parallel = true}))));
  if (!out.empty()) runtime::write_file_atomic(out, plan_text_for(planned, out, form));
  if (!picture.empty()) runtime::write_file_atomic(picture, drawn(planned, record));
}

int PlanCommand::run() const {
  check_flags_together(command);
  if (!graph_format.empty())
    return plan_graph_file(*command, flags,
                           {search, flags.steering.stages_per_worker.value_or(1), search.hosts},
                           graph_format, json);
  if (!search.check.empty()) return check_plan_file(flags, search.check, json);
  require(!decisions || !out.empty(), "--short", "it is about the text that --out writes");
  require(!open || !picture.empty(), "--open", "it is about what --picture draws");
  require(picture.empty() || picture.ends_with(".svg"), "--picture",
          format("{} would hold an SVG; name a file that ends in .svg", picture));
  const std::optional<Planned> run =
      from_run.empty() ? std::nullopt : std::optional(read_plan_of({}, from_run));
  const PlanFlags asked = run ? flags_of_run(flags, *run, from_run) : flags;
  const Planned planned = make_plan_of(asked);
  if (search.front) {
    answer_front(asked, planned, json);
    return 0;
  }
  // A plan that its schedule cannot run is none.
  const PlanSchedule found = fitting_schedule_of(asked, planned);
  note_drains(found);
  Told told{record_of(planned.model, planned.plan, found.schedule, planned.setting), {}, {}};
  told.kept = kept_as_planned(told.record, planned);
  if (run) told.replan = compare_with_run(asked, *run, planned, from_run);
  if (why) told.boundaries = boundaries_of(asked, planned);
  write(planned, told.record);
  answer(
      json, [&] { return for_programs(planned, told); },
      [&](bool colour) { return for_people(planned, told, colour); });
  return 0;
}

std::string format_help() {
  std::vector<std::string> lines;
  for (const partitioner::GraphFormat& known : partitioner::graph_formats())
    lines.push_back(format("{} ({})", known.name, known.help));
  return format("{}", fmt::join(lines, ", "));
}

}  // namespace

void add_plan_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "plan", "Cuts a model into parts and says what each worker will compute, hold and send.");
  auto state = std::make_shared<PlanCommand>();
  state->command = command;
  add_model_flags(*command, state->flags);
  add_cut_flags(*command, state->flags);
  add_setting_flags(*command, state->flags);
  add_optimizer_flags(*command, state->flags);
  add_search_flags(*command, state->flags, state->search);
  command
      ->add_option("--format", state->graph_format,
                   "Cut another tool's graph, the file MODEL: " + format_help())
      ->check(parsed_by(partitioner::find_graph_format))
      ->type_name("FORMAT");
  command
      ->add_option(
          "--from-run", state->from_run,
          "Plan anew as the run in this folder was planned, by the times that it measured, "
          "and tell which weights would move")
      ->type_name("FOLDER");
  command->add_option("--out", state->out, "Write the plan here, for kerf train --plan")
      ->type_name("FILE");
  command->add_option("--picture", state->picture, "Draw the cut here, coloured by worker")
      ->type_name("FILE.svg");
  command
      ->add_option(
          "--open", state->open,
          "Of a large model's picture: the stage that is drawn operator by operator (default: the "
          "slowest worker's; in boxes of several where it would take more than 600)")
      ->type_name("STAGE");
  command->add_flag("--short", state->decisions,
                    "Write only what was decided: a boundary is moved by editing one line");
  command->add_flag("--fit-batch", state->flags.fit_batch,
                    "Take the most rows per step that fit under --memory, instead of --batch");
  command->add_flag(
      "--why", state->why,
      "Tell what crosses each boundary between stages, and what moving it would cost");
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf plan lenet5 --workers 3 --out plan.json --picture plan.svg\n"
      "  kerf plan lenet5 --out plan.json --short   edit it, then kerf train --plan plan.json\n"
      "  kerf plan vit --cut auto --workers 4   whichever plan has the shortest step\n"
      "  kerf plan mlp --cut free --devices three.json   unequal devices, none of them here\n"
      "  kerf plan bvlc-alexnet --way 'conv*=batch' --way 'fc*=feature' --workers 4\n"
      "  kerf plan seq2seq --place places.txt --workers 3   lines as: encoder* 0\n"
      "  kerf plan gpt --stages-per-worker 2 --apart 'wte,lm_head'\n"
      "  kerf plan resnet50.txt --format pipedream --workers 8");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
