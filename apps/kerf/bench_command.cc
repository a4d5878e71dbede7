// kerf bench: measurements that compare. So far of schedules.
#include <memory>
#include <sstream>

#include "apps/kerf/bench_schedules.h"
#include "apps/kerf/commands.h"
#include "apps/kerf/run_flags.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostSteps = 100'000;

struct BenchSchedulesCommand {
  BenchSchedulesFlags flags;
  std::string schedules;  // with commas
  bool no_equal_memory = false;
  bool json = false;

  int run() {
    require(!flags.own_costs || !flags.simulate_only, "--own-costs",
            "nothing runs by --simulate-only; leave one of them out");
    flags.equal_memory = !no_equal_memory;
    require(!flags.plan.memory || !no_equal_memory, "--memory",
            "it is for what --no-equal-memory leaves out");
    require(flags.crew.listen.empty(), "--listen",
            "every run has workers of its own, which are started here; leave it out");
    flags.crew.launcher = "none";
    std::istringstream names(schedules);
    for (std::string name; std::getline(names, name, ',');) {
      require(!name.empty(), "--schedules", "a name is empty");
      flags.schedules.push_back(name);
    }
    const ScheduleBench bench = bench_schedules(flags);
    answer(
        json, [&] { return to_json(bench); }, [&](bool colour) { return text_of(bench, colour); });
    return 0;
  }
};

void add_schedules_flags(CLI::App& command, BenchSchedulesCommand& state) {
  BenchSchedulesFlags& flags = state.flags;
  add_model_flags(command, flags.plan);
  add_count_flags(command, flags.plan);
  command
      .add_option("--batch", flags.plan.batch,
                  "Rows per step (default 128, or as many as --micro-batches has)")
      ->check(whole_number<int64_t>(1, partitioner::kMostRows))
      ->type_name("ROWS");
  command
      .add_option("--schedules", state.schedules,
                  "With commas, names and files; default: every built-in one that trains")
      ->type_name("NAME[,...]");
  command
      .add_option("--memory", flags.plan.memory,
                  "What a worker may take where memory is equal, as in 500M or 1.5G (default: as "
                  "much as 1f1b takes)")
      ->transform(byte_size())
      ->type_name("BYTES");
  command.add_option("--steps", flags.steps, "Of each schedule, the median of which counts")
      ->check(whole_number<int64_t>(1, kMostSteps))
      ->capture_default_str();
  command.add_option("--warm-up", flags.warm_up, "Steps before those, at least one")
      ->check(whole_number<int64_t>(1, kMostSteps))
      ->capture_default_str();
  add_data_flag(command, flags.data);
  add_optimizer_flags(command, flags.plan);
  command.add_flag("--simulate-only", flags.simulate_only,
                   "Run nothing: by what the planner thinks that operators take");
  command.add_flag("--own-costs", flags.own_costs,
                   "Simulate each schedule by what actions took in a first run of its own, not of "
                   "the first that has these stages");
  command.add_flag("--no-equal-memory", state.no_equal_memory, "Leave out the second table");
  add_crew_flags(command, flags.crew);
  // Every run has workers of its own, which are started here.
  for (const char* flag : {"--hosts", "--launcher"})
    command.remove_option(command.get_option(flag));
  add_threads_flag(command, flags.crew);
  add_json_flag(command, state.json);
}

void add_bench_schedules(CLI::App& bench, Chosen& chosen) {
  CLI::App* command = bench.add_subcommand(
      "schedules",
      "Trains a model by every schedule and lays them side by side, simulated and measured.");
  auto state = std::make_shared<BenchSchedulesCommand>();
  add_schedules_flags(*command, *state);
  command->footer(
      "First every schedule has as many micro-batches; then each as many as it takes to need no "
      "more memory than the cap. Simulated is by what actions took in a first run on these "
      "stages.\n\n"
      "Examples:\n"
      "  kerf bench schedules mlp --sizes 1024-1024-1024-1024-10 --workers 2 --batch 512\n"
      "  kerf bench schedules lenet5 --workers 2 --schedules 1f1b,zb-h1,zbv --steps 20\n"
      "  kerf bench schedules resnet18 --image-size 64 --workers 8 --simulate-only");
  run_when_chosen(*command, chosen, state);
}

}  // namespace

void add_bench_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command =
      app.add_subcommand("bench", "Measures what there is to choose from, on this machine.");
  command->require_subcommand(0, 1);
  add_bench_schedules(*command, chosen);
  command->callback([command, &chosen] {
    if (command->get_subcommands().empty())
      chosen.run = []() -> int {
        throw Error(ErrorCode::kUsage, "name what to measure: schedules", "kerf bench");
      };
  });
  command->footer(
      "Examples:\n"
      "  kerf bench schedules mlp --workers 2 --batch 256\n"
      "  kerf bench schedules lenet5 --workers 2 --schedules 1f1b,zbv --json");
}

}  // namespace kerf::apps
