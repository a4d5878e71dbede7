#include "apps/kerf/plan_search_flags.h"

#include "apps/kerf/flag_rules.h"
#include "apps/main/flag_values.h"
#include "partitioner/search_effort.h"
#include "runtime/format.h"

namespace kerf::apps {

void add_search_flags(CLI::App& command, PlanFlags& plan, SearchFlags& search) {
  command
      .add_option("--slack", plan.slack,
                  help_for("--slack",
                           "save bytes as long as the bottleneck (of auto: the step's time) stays "
                           "within (1 + S) times the least (default 0)"))
      ->type_name("S");
  constexpr partitioner::SearchEffort kMost = partitioner::kCertifyingEffort;
  command.add_flag(
      "--certify", plan.certify,
      help_for("--certify",
               format("search far longer (it may be hours) to prove that no plan has a lower "
                      "bottleneck; beyond {} million ideals or {} billion steps it stays a bound",
                      kMost.ideals / 1'000'000, kMost.visits / 1'000'000'000)));
  command.add_flag(
      "--front", search.front,
      help_for("--front",
               "instead of one plan, list those of which none is better in bottleneck, bytes and "
               "memory, under --memory"));
  command
      .add_option("--check", search.check,
                  "Instead of planning, look at this plan (or at a JSON file of node to stage): "
                  "exit code 0 if it is sound, 1 and why if not, 2 if it cannot be read")
      ->type_name("FILE");
  command
      .add_option(
          "--assign", plan.assign,
          help_for("--assign",
                   "take the stages that this JSON file gives each node, as \"assignment\" of "
                   "--json does"))
      ->type_name("FILE");
  command
      .add_option("--hosts", search.hosts,
                  "Of a graph read with --format: devices of its second kind beside the workers, "
                  "used where they lower the bottleneck (default: as its file says, none where "
                  "workers hold several stages)")
      ->check(whole_number<int>())
      ->type_name("N");
  command
      .add_option("--graph-out", search.graph_out,
                  help_for("--graph-out",
                           "write the cost graph that it is planned on; --format costs reads it"))
      ->type_name("FILE");
  command
      .add_option(
          "--stage-costs", search.stage_costs,
          help_for("--stage-costs",
                   "write what F, I and W of each stage take, and the bytes of its messages "
                   "and activations, for kerf schedule --costs (of a graph's backward "
                   "times half each)"))
      ->type_name("FILE");
}

}  // namespace kerf::apps
