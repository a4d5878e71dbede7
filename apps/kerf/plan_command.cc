// kerf plan: cut a model and say what it costs, without running anything.
#include <cstdio>
#include <memory>

#include "apps/kerf/commands.h"
#include "apps/kerf/flag_values.h"
#include "apps/kerf/plan_flags.h"
#include "apps/kerf/plan_graph.h"
#include "apps/kerf/plan_report.h"
#include "apps/report/terminal.h"
#include "partitioner/graph_formats.h"
#include "partitioner/picture.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

struct PlanCommand {
  const CLI::App* command = nullptr;
  PlanFlags flags;
  std::string graph_format;  // of a graph that is no model
  std::string out;
  std::string picture;
  bool json = false;

  int run() const {
    if (!graph_format.empty()) {
      std::fputs(plan_graph_file(*command, flags, graph_format, json).c_str(), stdout);
      return 0;
    }
    const auto [model, plan] = make_plan_of(flags);
    fitting_schedule_of(flags, plan);  // a plan that its schedule cannot run is none
    if (!out.empty()) runtime::write_file_atomic(out, partitioner::write_plan(model, plan));
    if (!picture.empty()) runtime::write_file_atomic(picture, partitioner::draw_svg(model, plan));
    std::string text = json ? json_text(plan_report(model, plan), 2) + "\n"
                            : plan_text(model, plan, wants_colour(1));
    if (!json && !out.empty()) text += format("plan     {}\n", out);
    if (!json && !picture.empty()) text += format("picture  {}\n", picture);
    std::fputs(text.c_str(), stdout);
    return 0;
  }
};

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
  command
      ->add_option("--momentum", state->flags.momentum,
                   "Above 0, the optimizer's state counts as memory")
      ->capture_default_str();
  command
      ->add_option("--format", state->graph_format,
                   "Cut another tool's graph, the file MODEL: " + format_help())
      ->check(parsed_by(partitioner::find_graph_format))
      ->type_name("FORMAT");
  command->add_option("--out", state->out, "Write the plan here, for kerf train --plan")
      ->type_name("FILE");
  command->add_option("--picture", state->picture, "Draw the cut here")->type_name("FILE.svg");
  command->add_flag("--json", state->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  kerf plan lenet5 --workers 3 --out plan.json --picture plan.svg\n"
      "  kerf plan mlp --sizes 784-2048-2048-10 --cut feature --workers 4 --memory 64M\n"
      "  kerf plan mlp --cut hybrid --stages 2 --workers 4 --json\n"
      "  kerf plan resnet50.txt --format pipedream --workers 8");
  command->callback([&chosen, state] { chosen.run = [state] { return state->run(); }; });
}

}  // namespace kerf::apps
