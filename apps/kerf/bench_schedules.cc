#include "apps/kerf/bench_schedules.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "apps/data/datasets.h"
#include "apps/kerf/learning_flags.h"
#include "apps/kerf/plan_schedule.h"
#include "apps/kerf/proof.h"
#include "apps/kerf/run_flags.h"
#include "apps/kerf/run_training.h"
#include "apps/kerf/traced_run.h"
#include "apps/main/flag_values.h"
#include "apps/report/sign_of_life.h"
#include "partitioner/part.h"
#include "partitioner/stage_graph.h"
#include "runtime/error.h"
#include "schedmp/idle_share.h"
#include "schedmp/kept.h"
#include "schedmp/period.h"
#include "schedmp/search/plan_costs.h"
#include "schedmp/simulate_run.h"
#include "schedmp/staircase.h"
#include "schedmp/steps.h"
#include "schedmp/training/lanes.h"
#include "schedmp/verify.h"

namespace kerf::apps {

namespace {

using schedmp::ActionCosts;
using schedmp::Schedule;

constexpr const char* kMemoryOf = "1f1b";  // unless --memory says how much
constexpr int64_t kTracedSteps = 8;        // by which actions are priced; the first warms up
constexpr int64_t kSimulatedSteps = 8;
constexpr double kSmallRate = 1e-5;  // nobody wants to see it learn

// A schedule on the stages that it has there, which can run.
struct Entry {
  Planned planned;
  Schedule schedule;
  std::vector<partitioner::Part> parts = {};
  std::vector<int32_t> credits = {};  // by route
  int64_t peak_bytes = 0;             // of the fullest worker
};

// Which stages there are, where, and of how many rows: what actions cost follows from that.
std::string stages_key(const partitioner::Plan& plan) {
  std::string key = format("{} rows in {}, on {}", plan.batch,
                           partitioner::sizes_text(plan.micro_batches, plan.given_sizes),
                           fmt::join(plan.binding, " "));
  for (const partitioner::Stage& stage : plan.stages)
    key += format("; {}{}", stage.interleaved ? "interleaved " : "", fmt::join(stage.nodes, " "));
  return key;
}

class Bench {
 public:
  explicit Bench(const BenchSchedulesFlags& flags) : flags_(flags) {}

  ScheduleBench run() {
    const std::vector<std::string> names = names_to_bench();
    total_ = std::ssize(names);
    Entry base = entry_of(kMemoryOf, flags_.plan.micro_batches);
    result_.model = base.planned.model.name();
    result_.workers = base.planned.plan.workers_bound();
    result_.batch = base.planned.plan.batch;
    result_.given_sizes = base.planned.plan.given_sizes;
    result_.steps = flags_.steps;
    if (!flags_.simulate_only) {
      require_loss(base.planned.model);
      result_.data =
          complete_dataset_name(flags_.data, base.planned.model, base.planned.plan.batch);
    }
    result_.cap = flags_.plan.memory.value_or(base.peak_bytes);
    result_.cap_of = flags_.plan.memory ? "--memory" : format("{}'s", kMemoryOf);
    base_ = std::move(base);
    for (const std::string& name : names) add(name);
    sort_by_time(result_.own);
    sort_by_time(result_.equal);
    return std::move(result_);
  }

 private:
  std::vector<std::string> names_to_bench() const {
    std::vector<std::string> names = flags_.schedules;
    if (names.empty())
      for (const std::string& name : schedmp::schedule_names())
        if (schedmp::trains(name)) names.push_back(name);
    std::set<std::string> once;
    for (const std::string& name : names) {
      require(once.insert(name).second, "--schedules", format("{} is there twice", name));
      if (is_built_in(name))
        require(schedmp::trains(name), "--schedules",
                format("{} has no gradients: there is nothing to compare", name));
    }
    return names;
  }

  PlanFlags flags_for(const std::string& name, std::optional<int> micro_batches) const {
    PlanFlags flags = flags_.plan;
    flags.schedule = name;
    if (micro_batches != flags.micro_batches) {  // of the same rows, evenly
      flags.batch = result_.batch;
      flags.given_sizes.clear();
    }
    flags.micro_batches = micro_batches;
    flags.memory.reset();
    flags.run_on(flags_.crew);
    return flags;
  }

  // Throws Error where it has no plan, or cannot run it.
  Entry entry_of(const std::string& name, std::optional<int> micro_batches) const {
    const PlanFlags flags = flags_for(name, micro_batches);
    Entry entry{make_plan_of(flags), {}};
    entry.schedule = fitting_schedule_of(flags, entry.planned).schedule;
    Proof proof = prove(entry.planned, entry.schedule);
    if (!proof.problems.empty())
      throw Error(ErrorCode::kUsage, format("refuted: {}", fmt::join(proof.problems, "; ")), name);
    entry.peak_bytes = *std::ranges::max_element(proof.verdict->peak_bytes);
    entry.credits = schedmp::credits_of(*proof.verdict, entry.planned.setting.slots);
    entry.parts = std::move(proof.parts);
    return entry;
  }

  void add(const std::string& name) {
    ++number_;
    life_->tell("planning", name);
    std::optional<Entry> entry;
    BenchedSchedule row{.name = name};
    try {
      entry = entry_of(name, flags_.plan.micro_batches);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage && error.code() != ErrorCode::kInfeasible) throw;
      // Who names a file wants to know what is wrong with it.
      if (!is_built_in(name)) throw;
      row.why_not = error.message();
    }
    if (!entry) return add_unfit(std::move(row));
    BenchedSchedule own = benched(*entry);
    own.name = name;
    result_.own.push_back(own);
    if (!flags_.equal_memory) return;
    if (entry->peak_bytes <= result_.cap) {
      result_.equal.push_back(std::move(own));
      return;
    }
    add_within_cap(name, *entry);
  }

  // What no plan runs can be simulated on a chain of its shape, by what stages take that are as
  // many; there is no saying what memory that takes.
  void add_unfit(BenchedSchedule row) {
    const auto workers = base_->planned.plan.workers_bound();
    const int micro_batches = base_->planned.plan.micro_batches;
    row.micro_batches = micro_batches;
    try {
      const auto pipeline = schedmp::chain_of_shape(row.name, workers);
      const Schedule schedule =
          schedmp::as_it_runs(schedmp::make_step(row.name, pipeline, micro_batches));
      if (const auto why = schedmp::why_it_cannot_run(schedule)) row.why_not = *why;
      row.stages = schedule.stages();
      row.in_flight = in_flight(schedule);
      if (schedule.stages() == std::ssize(base_->planned.plan.stages))
        unfold(schedule, pipeline.graph, costs_for(*base_), row);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      row.why_not = error.message();  // not even that
    }
    result_.own.push_back(std::move(row));
  }

  static int in_flight(const Schedule& schedule) {
    return std::ranges::max(schedmp::peak_activations(schedmp::in_full_flight(schedule)));
  }

  BenchedSchedule benched(const Entry& entry) {
    const partitioner::Plan& plan = entry.planned.plan;
    BenchedSchedule row{.stages = static_cast<int>(plan.stages.size()),
                        .micro_batches = plan.micro_batches,
                        .given_sizes = plan.given_sizes,
                        .in_flight = in_flight(entry.schedule),
                        .peak_bytes = entry.peak_bytes};
    simulate(entry, row);
    if (!flags_.simulate_only) row.measured_steps = measured_steps(entry);
    return row;
  }

  // As it will run: steps behind each other, on the plan's parts.
  void simulate(const Entry& entry, BenchedSchedule& row) {
    const ActionCosts& costs = costs_for(entry);
    const auto steps = static_cast<int>(flags_.warm_up + kSimulatedSteps);
    const schedmp::SimulatedRun run = schedmp::simulate_run(
        entry.planned.plan, entry.parts, entry.schedule, costs, entry.credits, steps);
    row.simulated_seconds = run.period(static_cast<size_t>(flags_.warm_up - 1));
    row.bubble = schedmp::idle_share(run.busy / entry.schedule.workers(), *row.simulated_seconds);
  }

  // Without parts, on the graph of the stages.
  static void unfold(const Schedule& schedule, const partitioner::StageGraph& graph,
                     const ActionCosts& costs, BenchedSchedule& row) {
    if (schedule.endless()) {
      const schedmp::Period period = schedmp::period_of(schedule, graph, costs);
      row.simulated_seconds = period.takes;
      row.bubble = period.bubble;
      return;
    }
    const schedmp::Bubble bubble = schedmp::bubble(schedule, graph, costs);
    row.simulated_seconds = bubble.makespan;
    row.bubble = bubble.step;
  }

  // Of more micro-batches of fewer rows, the fewest that fit, found by doubling and halving.
  void add_within_cap(const std::string& name, const Entry& own) {
    const auto most =
        static_cast<int>(std::min<int64_t>(own.planned.plan.batch, partitioner::kMostMicroBatches));
    int64_t least_bytes = own.peak_bytes;
    std::optional<Entry> fits;
    const auto try_with = [&](int micro_batches) {
      life_->tell("planning", format("{} in {}", name, plural(micro_batches, "micro-batch")));
      try {
        Entry entry = entry_of(name, micro_batches);
        least_bytes = std::min(least_bytes, entry.peak_bytes);
        if (entry.peak_bytes > result_.cap) return false;
        fits = std::move(entry);
        return true;
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUsage && error.code() != ErrorCode::kInfeasible) throw;
        return false;  // nor has it a plan
      }
    };
    int too_few = own.planned.plan.micro_batches;
    int enough = too_few;
    while (enough < most && !fits) {
      too_few = enough;
      enough = std::min(2 * enough, most);
      try_with(enough);
    }
    while (fits && enough - too_few > 1) {
      const int middle = too_few + (enough - too_few) / 2;
      (try_with(middle) ? enough : too_few) = middle;
    }
    BenchedSchedule row;
    if (fits) {
      row = benched(*fits);
    } else {
      row.stages = static_cast<int>(own.planned.plan.stages.size());
      row.micro_batches = own.planned.plan.micro_batches;
      row.in_flight = in_flight(own.schedule);
      row.peak_bytes = own.peak_bytes;
      row.why_not = format("it takes {} at least, in however many micro-batches",
                           human_bytes(static_cast<double>(least_bytes)));
    }
    row.name = name;
    result_.equal.push_back(std::move(row));
  }

  // What actions take on those stages: as a run of the first schedule that has them says, or of
  // each.
  const ActionCosts& costs_for(const Entry& entry) {
    const partitioner::Plan& plan = entry.planned.plan;
    std::string key = stages_key(plan);
    if (flags_.own_costs) key += "; " + entry.schedule.name;
    const auto [at, fresh] = costs_.try_emplace(std::move(key));
    if (!fresh) return at->second;
    if (flags_.simulate_only) {
      at->second = schedmp::costs_of_plan(entry.planned.model, plan, entry.parts);
    } else {
      const Outcome outcome = run(entry, kTracedSteps, kTracedSteps, "pricing");
      at->second = at_flag("--micro-batches", [&] {
        return TracedRun(entry.planned, entry.schedule, outcome).costs();
      });
    }
    return at->second;
  }

  std::vector<double> measured_steps(const Entry& entry) {
    const Outcome outcome = run(entry, flags_.warm_up + flags_.steps, 0, "running");
    const auto& steps = outcome.training->steps();
    std::vector<double> seconds;
    for (size_t i = static_cast<size_t>(flags_.warm_up); i < steps.size(); ++i)
      seconds.push_back(static_cast<double>(steps[i].end_ns - steps[i - 1].end_ns) * 1e-9);
    return seconds;
  }

  Outcome run(const Entry& entry, int64_t steps, int64_t traced, const std::string& what) {
    const Planned& planned = entry.planned;
    schedmp::TrainingOptions options = options_of(RunKind::kTrain, planned);
    options.dataset = result_.data;
    options.steps = steps;
    options.evaluate = false;
    options.trace_steps = traced;
    LearningFlags learning;
    learning.rate = kSmallRate;
    learning.apply(planned, options);
    const schedmp::OpenSplits data = open_data(RunKind::kTrain, planned, options);
    const int64_t per_epoch = data.train->rows() / options.batch;
    require(per_epoch > 0, "--data",
            format("no step would have the {} of --batch: the data has {}", options.batch,
                   plural(data.train->rows(), "row")));
    options.epochs = static_cast<int>(steps / per_epoch + 1);
    CrewFlags crew = flags_.crew;
    crew.threads = planned.setting.threads;
    Progress::Options progress = progress_on_stderr();
    progress.epoch_lines = false;
    life_.reset();  // its line is the bar's now
    progress.words.epoch =
        format("{} {} ({} of {}), epoch", what, entry.schedule.name, number_, total_);
    Outcome outcome = run_training(RunKind::kTrain, planned, entry.schedule, options, data, crew,
                                   std::move(progress));
    life_.emplace(life_on_stderr());
    return outcome;
  }

  const BenchSchedulesFlags& flags_;
  ScheduleBench result_;
  std::optional<Entry> base_;
  std::map<std::string, ActionCosts> costs_;                         // by stages_key()
  std::optional<SignOfLife> life_{std::in_place, life_on_stderr()};  // while nothing runs
  int64_t number_ = 0;
  int64_t total_ = 0;
};

}  // namespace

ScheduleBench bench_schedules(const BenchSchedulesFlags& flags) { return Bench(flags).run(); }

}  // namespace kerf::apps
