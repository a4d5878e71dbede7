// What the text of a schedule alone can prove: every action once, in a legal order.
#include <algorithm>
#include <map>
#include <set>

#include "runtime/format.h"
#include "schedmp/row_check.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

namespace {

// Members of a group run the stages that they share in one order. Of workers that have the same
// stages each is compared with the first of them, and those with each other.
class GroupCheck {
 public:
  GroupCheck(const Schedule& schedule, Problems& problems)
      : schedule_(schedule), problems_(problems), groups_(static_cast<size_t>(schedule.workers())) {
    for (size_t group = 0; group < schedule.groups.size(); ++group)
      for (const int worker : schedule.groups[group])
        groups_[static_cast<size_t>(worker)].insert(static_cast<int>(group));
  }

  void run() {
    for (const std::vector<int>& group : schedule_.groups) {
      std::map<std::set<int>, int> firsts;
      for (const int worker : group) {
        const auto [first, fresh] = firsts.emplace(groups_[static_cast<size_t>(worker)], worker);
        if (!fresh) compare_once(first->second, worker);
      }
      for (auto a = firsts.begin(); a != firsts.end(); ++a)
        for (auto b = std::next(a); b != firsts.end(); ++b)
          compare_once(std::min(a->second, b->second), std::max(a->second, b->second));
    }
  }

 private:
  void compare_once(int a, int b) {
    if (compared_.emplace(a, b).second) compare(a, b);
  }

  // The stages of which both are in a group.
  std::set<int> shared_stages(int a, int b) const {
    std::set<int> shared;
    for (const int group : groups_[static_cast<size_t>(a)])
      if (groups_[static_cast<size_t>(b)].contains(group))
        shared.insert(group % schedule_.stages());
    return shared;
  }

  // The worker's next action from `at` on that is of these stages; null if there is none.
  const Action* next(int worker, const std::set<int>& stages, size_t& at) const {
    const std::vector<Action>& row = schedule_.rows[static_cast<size_t>(worker)];
    while (at < row.size() && !stages.contains(row[at].stage)) ++at;
    return at < row.size() ? &row[at++] : nullptr;
  }

  void compare(int a, int b) {
    const std::set<int> shared = shared_stages(a, b);
    size_t at_a = 0;
    size_t at_b = 0;
    while (true) {
      const Action* first = next(a, shared, at_a);
      const Action* second = next(b, shared, at_b);
      if (first == nullptr && second == nullptr) return;
      if (first != nullptr && second != nullptr && *first == *second) continue;
      const auto text = [](const Action* action) {
        return action == nullptr ? std::string("nothing") : to_string(*action);
      };
      const Action& either = first != nullptr ? *first : *second;
      return problems_.add(
          "workers {} and {} share stage {} but not the order of what they do there: where {} has "
          "{}, {} has {}",
          a, b, either.stage, a, text(first), b, text(second));
    }
  }

  const Schedule& schedule_;
  Problems& problems_;
  std::vector<std::set<int>> groups_;  // by worker
  std::set<std::pair<int, int>> compared_;
};

std::string stages_text(int stages, int replicas) {
  if (replicas == 1) return kerf::format("{} stages", stages);
  return kerf::format("{} stages in {} replicas", stages, replicas);
}

// "stage 2", "stage 2 of replica 1"
std::string group_text(const Schedule& schedule, size_t group) {
  const auto stages = static_cast<size_t>(schedule.stages());
  if (group < stages) return kerf::format("stage {}", group);
  return kerf::format("stage {} of replica {}", group % stages, group / stages);
}

std::string workers_text(const std::vector<int>& workers) {
  return kerf::format("{}", fmt::join(workers, ","));
}

}  // namespace

namespace {

std::vector<std::string> check_rows_and_groups(const Schedule& schedule) {
  Problems problems;
  const auto exists = [&](int worker) { return worker >= 0 && worker < schedule.workers(); };
  for (size_t group = 0; group < schedule.groups.size(); ++group)
    if (!std::ranges::all_of(schedule.groups[group], exists)) {
      problems.add("stage {} is on a worker that does not exist",
                   group % static_cast<size_t>(schedule.stages()));
      return problems.take();
    }
  check_rows(schedule, problems);
  GroupCheck(schedule, problems).run();
  return problems.take();
}

}  // namespace

int64_t proving_periods(const Schedule& endless) {
  int ahead = 0;
  int oldest = 0;
  int64_t at_work = 0;
  for (size_t worker = 0; worker < endless.rows.size(); ++worker) {
    for (const auto* section : {&endless.prologue, &endless.rows})
      for (const Action& action : (*section)[worker]) {
        ahead = std::max(ahead, action.micro_batch);
        oldest = std::min(oldest, action.version);
      }
    at_work += endless.rows[worker].empty() ? 0 : 1;
  }
  return std::max<int64_t>(1, at_work) * (ahead / endless.micro_batches + 1) + 2 - oldest;
}

Schedule as_it_is_proved(const Schedule& schedule) {
  if (!schedule.endless()) return schedule;
  return unrolled(schedule, static_cast<int>(proving_periods(schedule)));
}

std::vector<std::string> check_order(const Schedule& schedule) {
  if (schedule.micro_batches < 1) return {"there must be at least 1 micro-batch"};
  if (!schedule.endless()) return check_rows_and_groups(schedule);
  const int64_t needed = proving_periods(schedule);
  if (schedule.actions() > kMostUnfolded / needed ||
      schedule.micro_batches > kMostUnfolded / needed)
    return {
        kerf::format("it is proved over {} periods, which have more than {} actions or "
                     "micro-batches",
                     needed, kMostUnfolded)};
  std::vector<std::string> problems;
  for (const int periods : {1, 2, static_cast<int>(needed)})
    if (problems.empty()) problems = check_rows_and_groups(unrolled(schedule, periods));
  return problems;
}

std::vector<std::string> check_fits(const Schedule& schedule, const partitioner::Plan& plan) {
  Problems problems;
  if (const auto why = why_it_cannot_run(schedule)) problems.add("{}", *why);
  if (schedule.micro_batches != plan.micro_batches)
    problems.add("the schedule has {} micro-batches, the plan {}", schedule.micro_batches,
                 plan.micro_batches);
  if (schedule.workers() != plan.workers_bound())
    problems.add("the schedule has {} workers, the plan {}", schedule.workers(),
                 plan.workers_bound());
  const std::vector<std::vector<int>> groups = groups_of(plan);
  if (schedule.replicas != plan.replicas() || schedule.stages() != std::ssize(plan.stages)) {
    problems.add("the schedule has {}, the plan {}",
                 stages_text(schedule.stages(), schedule.replicas),
                 stages_text(static_cast<int>(plan.stages.size()), plan.replicas()));
    return problems.take();
  }
  for (int mb = 0; mb < std::min(schedule.micro_batches, plan.micro_batches); ++mb)
    if (const int must = plan.replicas() == 1 ? 0 : plan.replica_of[static_cast<size_t>(mb)];
        schedule.replica(mb) != must)
      problems.add("the schedule sends micro-batch {} through replica {}, the plan through {}", mb,
                   schedule.replica(mb), must);
  for (size_t group = 0; group < groups.size(); ++group) {
    const std::vector<int>& have = schedule.groups[group];
    const std::vector<int>& must = groups[group];
    if (have == must) continue;
    const std::string stage = group_text(schedule, group);
    if (std::is_permutation(have.begin(), have.end(), must.begin(), must.end()))
      problems.add(
          "the schedule lists the workers of {} as {}, the plan as {}: put them in "
          "the plan's order",
          stage, workers_text(have), workers_text(must));
    else
      problems.add("the schedule has {} on the workers {}, the plan on {}", stage,
                   workers_text(have), workers_text(must));
  }
  return problems.take();
}

std::optional<std::string> why_it_cannot_run(const Schedule& schedule) {
  const auto told = [&](const std::string& what) {
    return kerf::format("{}: it can be proved and simulated by itself, but no plan runs it", what);
  };
  const bool within = schedule.updates_within();
  for (const auto* section : {&schedule.prologue, &schedule.rows, &schedule.epilogue})
    for (size_t worker = 0; worker < section->size(); ++worker)
      for (const Action& action : (*section)[worker]) {
        const std::string where = kerf::format("worker {}: {}", worker, to_string(action));
        if (action.kind > ActionKind::kRecompute) return told(where);
        if (within && is_of_updates(action.kind) && action.micro_batch < 0)
          return kerf::format("{} names no micro-batch, as other updates do: write {}{}", where,
                              to_string(action), schedule.micro_batches - 1);
      }
  return std::nullopt;
}

}  // namespace kerf::schedmp
