#include "apps/kerf/cost_flags.h"

#include <algorithm>
#include <filesystem>

#include "apps/kerf/plan_schedule.h"
#include "apps/main/flag_values.h"
#include "partitioner/capacities.h"
#include "runtime/file.h"
#include "schedmp/action_costs.h"

namespace kerf::apps {

void add_message_flags(CLI::App& command, CostFlags& flags) {
  command
      .add_option("--message-bytes", flags.message_bytes,
                  "How many bytes the messages of a stage have: of its forward, its input gradient "
                  "(default: as many), and to its replicas (default: none); without it, what the "
                  "costs' file or the plan says")
      ->type_name("F[,I[,W]]");
  command
      .add_option("--contention", flags.contention,
                  "What a message over a link waits for: link, those before it to the same worker; "
                  "port, all that its worker sent before; none (default: link)")
      ->check(parsed_by([](const std::string& text) { schedmp::parse_contention(text); }))
      ->type_name("WHAT");
}

void add_cost_flags(CLI::App& command, CostFlags& flags) {
  command
      .add_option("--costs", flags.costs,
                  "What F, I and W of a stage take, and a message between workers, in any unit "
                  "(default 1,1,1,0): F,I,W[,COMM]; or plan, as the plan of --model or --plan is "
                  "priced; or a file with a line of them for each stage, {\"kerf_costs\": 1, "
                  "\"COMM\": 0, \"stages\": [{\"F\": 1, \"I\": 1, \"W\": 1, \"F_bytes\": 4096, "
                  "\"I_bytes\": 4096, \"kept_bytes\": 65536}, ...]}")
      ->type_name("COSTS");
  command
      .add_option("--devices", flags.devices,
                  "How fast each worker is, and the links between them: {\"kerf_devices\": 1, "
                  "\"workers\": {\"0\": {\"speed\": 1}, \"1\": {\"speed\": 2}}, \"links\": "
                  "[{\"between\": [0, 1], \"seconds\": 5e-5, \"bytes_per_second\": 1e9}]}")
      ->type_name("FILE");
  command
      .add_option("--link", flags.link,
                  "The link between any two workers that --devices does not list, in place of "
                  "COMM: what a message takes beside its bytes, in the unit of the costs, and "
                  "bytes by that unit (default: no limit)")
      ->check(parsed_by([](const std::string& text) { schedmp::parse_link(text); }))
      ->type_name("LATENCY[,BANDWIDTH]");
  add_message_flags(command, flags);
  command
      .add_option("--jitter", flags.jitter,
                  "By how much an action may take longer, as a fraction, drawn for each of 100 "
                  "steps: tells what 95 of them take at most")
      ->check(number_within(0, 1e6))
      ->type_name("FRACTION");
  command.add_option("--seed", flags.seed, "Of what --jitter draws (default 0)")
      ->check(whole_number<uint64_t>())
      ->type_name("N");
}

schedmp::ActionCosts read_costs_flag(const std::string& text) {
  if (std::filesystem::is_regular_file(text))
    return schedmp::read_costs(runtime::read_file(text, kMaxText), text);
  return at_flag("--costs", [&] { return schedmp::parse_costs(text); });
}

schedmp::ActionCosts costs_of(const CostFlags& flags) {
  schedmp::ActionCosts costs;
  if (!flags.costs.empty() && flags.costs != kPlanCosts) costs = read_costs_flag(flags.costs);
  costs.jitter = flags.jitter;
  costs.seed = flags.seed;
  if (flags.link) costs.links.every = schedmp::parse_link(*flags.link);
  if (flags.message_bytes)
    at_flag("--message-bytes", [&] { schedmp::parse_message_bytes(*flags.message_bytes, costs); });
  costs.links.contention = schedmp::parse_contention(flags.contention);
  return costs;
}

void take_devices(const CostFlags& flags, int workers, schedmp::ActionCosts& costs) {
  if (flags.devices.empty()) return;
  const partitioner::Capacities capacities = partitioner::read_devices(
      runtime::read_file(flags.devices, kMaxText), flags.devices, workers);
  costs.speeds.clear();
  for (const partitioner::Capacity& each : capacities.workers) costs.speeds.push_back(each.speed);
  costs.links.listed = schedmp::links_of(capacities, costs.links.every).listed;
}

void check_stages(const CostFlags& flags, const schedmp::ActionCosts& costs, int stages) {
  require(costs.stages.empty() || std::ssize(costs.stages) == stages, flags.costs,
          format("it has the costs of {}, but the schedule has {}",
                 plural(std::ssize(costs.stages), "stage"), stages));
}

void check_message_bytes(const CostFlags& flags, const schedmp::ActionCosts& costs) {
  // Of one stage alone there are none.
  const bool said = flags.message_bytes || costs.bytes.size() == 1 ||
                    std::any_of(costs.bytes.begin(), costs.bytes.end(),
                                [](const schedmp::StageBytes& stage) { return stage.sends(); });
  require(said || !costs.links.count_bytes(), "--message-bytes",
          "a link has a bandwidth, but nothing says how many bytes messages have; give it, or "
          "\"F_bytes\" and \"I_bytes\" in the costs' file");
}

}  // namespace kerf::apps
