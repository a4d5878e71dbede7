#include "apps/kerf/schedule_search.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "apps/kerf/proof.h"
#include "apps/main/flag_values.h"
#include "apps/report/sign_of_life.h"
#include "apps/report/table.h"
#include "schedmp/search/plan_caps.h"
#include "schedmp/search/plan_costs.h"

namespace kerf::apps {

namespace {

constexpr int64_t kMostSearched = 1 << 24;  // stages, squared, times micro-batches
constexpr double kMostSeconds = 3600;
constexpr double kSeconds = 5;  // unless somebody says so
constexpr int kMostCap = 1 << 20;

std::vector<int> caps_of(const std::string& text) {
  std::vector<int> caps;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string one = text.substr(start, end - start);
    int cap = 0;
    const auto [stop, fault] = std::from_chars(one.data(), one.data() + one.size(), cap);
    require(fault == std::errc() && stop == one.data() + one.size() && cap >= 1 && cap <= kMostCap,
            "--keep",
            format("'{}' must be a number of micro-batches from 1 to {}, or one for each worker, "
                   "as in 4,3,2,1",
                   text, kMostCap));
    caps.push_back(cap);
    start = end + 1;
  }
  return caps;
}

void check_size(int64_t stages, int micro_batches) {
  require(stages * stages * micro_batches <= kMostSearched, "--micro-batches",
          format("{} on {} are too much to search", plural(micro_batches, "micro-batch"),
                 plural(stages, "stage")));
}

schedmp::FoundSchedule found(const schedmp::Pipeline& pipeline, int micro_batches,
                             const ScheduleSearch& search, std::vector<int> keep) {
  const auto stages = std::ssize(pipeline.groups);
  if (search.flags.keep) keep = caps_of(*search.flags.keep);
  if (keep.size() == 1) keep.resize(static_cast<size_t>(stages), keep[0]);
  SignOfLife life(life_on_stderr());
  schedmp::SearchEffort effort{.seconds = search.flags.seconds.value_or(kSeconds),
                               .seed = search.seed};
  effort.sign = [&](double part) {
    life.tell("searching", format("improving, {}", human_percent(part)));
  };
  return at_flag(search.flags.keep ? "--keep" : kSearch, [&] {
    return schedmp::search_schedule(pipeline, micro_batches,
                                    search.costs.value_or(schedmp::ActionCosts{}), keep, effort);
  });
}

}  // namespace

void add_schedule_search_flags(CLI::App& command, ScheduleSearchFlags& flags) {
  command
      .add_option("--keep", flags.keep,
                  "Of a search: how many micro-batches a worker may have between their F and their "
                  "W, one number, or one for each worker (default: what 1F1B keeps)")
      ->type_name("N[,N...]");
  command
      .add_option(
          "--seconds", flags.seconds,
          format("Of a search: for so long it improves what it found (default {}), and tries "
                 "rules before, for five seconds at least; less where nothing can be better",
                 kSeconds))
      ->check(number_within(0, kMostSeconds))
      ->type_name("SECONDS");
}

void check_schedule_search_flags(const ScheduleSearchFlags& flags, const std::string& schedule) {
  if (schedule == kSearch) return;
  for (const auto& [name, given] :
       {std::pair{"--keep", flags.keep.has_value()}, {"--seconds", flags.seconds.has_value()}})
    require(!given, name, "it is of a search: kerf schedule search");
}

schedmp::FoundSchedule search_chain(int workers, int micro_batches, const ScheduleSearch& search) {
  check_size(workers, micro_batches);
  std::vector<std::vector<int>> groups;
  for (int worker = 0; worker < workers; ++worker) groups.push_back({worker});
  const auto pipeline = partitioner::chain_of(std::move(groups));
  return found(pipeline, micro_batches, search, schedmp::kept_by_1f1b(pipeline, micro_batches));
}

schedmp::FoundSchedule search_plan(const Planned& planned, ScheduleSearch& search) {
  const partitioner::Plan& plan = planned.plan;
  check_size(std::ssize(plan.stages), plan.micro_batches);
  const auto pipeline = partitioner::pipeline_of(planned.model, plan);
  require(plan.replicas() == 1, "search",
          "it looks for schedules of one replica of each stage, and the plan has several");
  require(plan.given_sizes.empty(), "search",
          "it takes all micro-batches for alike, and the plan says the rows of each; say how many "
          "there are");
  const std::vector<partitioner::Part> parts =
      lowered_for(planned, schedmp::one_f_one_b(pipeline, plan.micro_batches));
  if (!search.costs) search.costs = schedmp::costs_of_plan(planned.model, plan, parts);
  search.costs->speeds = search.speeds;
  if (!planned.memory || search.flags.keep)
    return found(pipeline, plan.micro_batches, search,
                 schedmp::kept_by_1f1b(pipeline, plan.micro_batches));
  std::vector<int> keep;
  {
    SignOfLife life(life_on_stderr());
    keep = schedmp::kept_within(
        planned.model, plan, parts, planned.setting, *search.costs, *planned.memory,
        [&](double) { life.tell("searching", "what the cap has room for"); });
  }
  return found(pipeline, plan.micro_batches, search, std::move(keep));
}

}  // namespace kerf::apps
