#include "apps/kerf/rebalance_flags.h"

#include <algorithm>
#include <utility>

#include "apps/kerf/plan_schedule.h"
#include "apps/main/flag_values.h"
#include "apps/rebalance_files.h"

namespace kerf::apps {

namespace {

constexpr const char* kRebalance = "--rebalance";
constexpr int64_t kLeastTraced = 4;  // steps, the first of which warms up

void check_plan(const PlanFlags& plan) {
  require(plan.shares.empty(), kRebalance,
          "it plans anew, and --shares says which worker computes what; leave one of them out");
  require(is_built_in(plan.schedule.value_or(plan.default_schedule)), kRebalance,
          "it plans anew, and a schedule of a file says which stages there are; give one by its "
          "name");
}

void check_crew(const CrewFlags& crew) {
  const std::vector<runtime::DeviceKind> kinds = device_kinds(crew);
  require(std::ranges::all_of(kinds, [](auto kind) { return kind == runtime::DeviceKind::kCpu; }),
          kRebalance,
          "a GPU's host does not know what of a step the GPU computes; it is for workers on CPUs");
  require(!crew.listen.ends_with(":*") || !crew.hosts.empty(), kRebalance,
          "workers look for the run at the same address again; give --listen a port");
}

}  // namespace

void RebalanceFlags::check(const Run& run) const {
  if (!asked) return;
  require(run.plan_file.empty(), kRebalance, "it plans anew; leave --plan out");
  check_plan(run.plan);
  check_crew(run.crew);
  require(run.replicas.replicas == 1 && run.plan.optimizer != kLbfgs, kRebalance,
          "it goes on from a checkpoint, and --replicas and --optimizer lbfgs have none");
  const SaveEvery saves = run.saves.when();
  require(saves.steps > 0 || saves.seconds > 0, kRebalance,
          "it goes on from a checkpoint, and with --save-every 0 there is none");
  require(run.trace_steps >= kLeastTraced, kRebalance,
          format("it goes by what operators take in traced steps; give --trace-steps {} or more",
                 kLeastTraced));
}

void RebalanceFlags::check_folder(const PlanFlags& plan,
                                  const std::filesystem::path& folder) const {
  if (!known.empty()) return;  // of its own files
  for (const auto& [flag, file] :
       {std::pair("--profile", plan.profile), std::pair("--devices", plan.steering.devices)})
    require(file.empty() || !lies_within(file, folder), flag,
            format("{} lies where this run writes such files, or removes them when it ends; give a "
                   "copy that lies elsewhere",
                   file));
  if (!asked) return;
  const std::filesystem::path strange = strange_file(folder);
  require(strange.empty(), kRebalance,
          format("{} is no run's, and a change of plan would write over it; move it, or give "
                 "another --out",
                 strange.string()));
}

void add_rebalance_flags(CLI::App& command, RebalanceFlags& flags) {
  command.add_flag(kRebalance, flags.asked,
                   "Where a worker computes slower than it did, or than its operators were priced, "
                   "plan anew by what was measured, and go on by that from a checkpoint, where it "
                   "makes the step a tenth shorter");
  command.add_option("--rebalanced", flags.known)->group("");  // of a process that goes on
  command.add_option(kReturningFlag, flags.returning)->check(whole_number<int>())->group("");
  command.add_flag(kGoesOnFlag, flags.goes_on)->group("");
}

}  // namespace kerf::apps
