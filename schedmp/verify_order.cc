// What the text of a schedule alone can prove: every action once, in a legal order.
#include <algorithm>
#include <map>
#include <set>

#include "runtime/format.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

namespace {

// What one worker has done of one stage so far.
struct Progress {
  std::vector<bool> forward, input_gradient, weight_gradient;
  int next_weight_gradient = 0;
  int weight_gradients = 0;
  bool reduced = false;
  bool updated = false;

  explicit Progress(int micro_batches)
      : forward(static_cast<size_t>(micro_batches)),
        input_gradient(forward.size()),
        weight_gradient(forward.size()) {}
};

// Keeps the first problems and counts the others.
class Problems {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    if (full()) return add_untold();
    list_.push_back(kerf::format(text, std::forward<Args>(args)...));
  }
  bool full() const { return list_.size() >= kMostProblems; }
  void add_untold() { ++more_; }
  std::vector<std::string> take() {
    if (more_ > 0) list_.push_back(kerf::format("and {} more problems", more_));
    return std::move(list_);
  }

 private:
  std::vector<std::string> list_;
  int64_t more_ = 0;
};

class RowCheck {
 public:
  // `trains`: the schedule does.
  RowCheck(const Schedule& schedule, int worker, bool trains, WeightOrder order, Problems& problems)
      : schedule_(schedule), worker_(worker), trains_(trains), order_(order), problems_(problems) {}

  void run() {
    if (!may_be_complete()) return;
    for (const int stage : mine()) stages_.emplace(stage, Progress(schedule_.micro_batches));
    for (const Action& action : schedule_.rows[static_cast<size_t>(worker_)]) take(action);
    for (const auto& [stage, progress] : stages_) complete(stage, progress);
  }

 private:
  std::vector<int> mine() const {
    std::vector<int> stages;
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      const std::vector<int>& group = schedule_.groups[static_cast<size_t>(stage)];
      if (std::find(group.begin(), group.end(), worker_) != group.end()) stages.push_back(stage);
    }
    return stages;
  }

  // What no row can hold is not looked at action by action: a short text can ask for millions.
  bool may_be_complete() const {
    const auto least = static_cast<int64_t>(mine().size()) * schedule_.micro_batches;
    if (least <= kMostActions) return true;
    problems_.add("worker {}: {} stages of {} micro-batches are more than {} actions", worker_,
                  mine().size(), schedule_.micro_batches, kMostActions);
    return false;
  }

  void problem(const Action& action, const std::string& what) {
    problems_.add("worker {}: {}: {}", worker_, to_string(action), what);
  }

  void take(const Action& action) {
    const auto found = stages_.find(action.stage);
    if (found == stages_.end()) return problem(action, "the stage is not this worker's");
    Progress& progress = found->second;
    if (action.version >= 0)  // and is else like any: what follows from it is not at fault
      problem(action, "names a version of the weights; a run has the current ones only");
    if (action.kind == ActionKind::kReduceGradient) return take_reduction(action, progress);
    if (action.kind == ActionKind::kUpdate) return take_update(action, progress);
    if (!is_run(action.kind))
      return problem(action, "this runtime cannot run this kind of action yet");
    if (action.micro_batch < 0 || action.micro_batch >= schedule_.micro_batches)
      return problem(action, "there is no such micro-batch");
    if (progress.updated) return problem(action, "comes after the stage's update");
    switch (action.kind) {
      case ActionKind::kForward:
        return once(action, progress.forward);
      case ActionKind::kInputGradient:
        return take_input_gradient(action, progress);
      case ActionKind::kWeightGradient:
        return take_weight_gradient(action, progress);
      case ActionKind::kBackward:
        take_input_gradient(action, progress);
        return take_weight_gradient(action, progress);
      default:
        return;
    }
  }

  static bool is_run(ActionKind kind) {
    return kind == ActionKind::kForward || kind == ActionKind::kInputGradient ||
           kind == ActionKind::kWeightGradient || kind == ActionKind::kBackward;
  }

  void once(const Action& action, std::vector<bool>& done) {
    if (done[static_cast<size_t>(action.micro_batch)]) problem(action, "stands twice");
    done[static_cast<size_t>(action.micro_batch)] = true;
  }

  void take_input_gradient(const Action& action, Progress& progress) {
    if (!progress.forward[static_cast<size_t>(action.micro_batch)])
      problem(action, "comes before its forward");
    once(action, progress.input_gradient);
  }

  void take_weight_gradient(const Action& action, Progress& progress) {
    if (!progress.input_gradient[static_cast<size_t>(action.micro_batch)])
      problem(action, "comes before its input gradient");
    if (order_ == WeightOrder::kAscending && action.micro_batch != progress.next_weight_gradient)
      problem(action, kerf::format("weight gradients must go up by micro-batch; {} is next",
                                   progress.next_weight_gradient));
    progress.next_weight_gradient = action.micro_batch + 1;
    if (!progress.weight_gradient[static_cast<size_t>(action.micro_batch)])
      ++progress.weight_gradients;
    once(action, progress.weight_gradient);
  }

  // It may be left out: then the update begins with it.
  void take_reduction(const Action& action, Progress& progress) {
    if (progress.reduced) problem(action, "stands twice");
    if (progress.updated) problem(action, "comes after the stage's update");
    if (progress.weight_gradients != schedule_.micro_batches)
      problem(action, "comes before every weight gradient is there");
    progress.reduced = true;
  }

  void take_update(const Action& action, Progress& progress) {
    if (progress.updated) problem(action, "stands twice");
    if (progress.weight_gradients != schedule_.micro_batches)
      problem(action, "comes before every weight gradient is there");
    progress.updated = true;
  }

  void complete(int stage, const Progress& progress) {
    for (int mb = 0; mb < schedule_.micro_batches; ++mb) {
      const auto at = static_cast<size_t>(mb);
      if (!progress.forward[at]) missing(stage, ActionKind::kForward, mb);
      if (trains_ && !progress.input_gradient[at]) missing(stage, ActionKind::kInputGradient, mb);
      if (trains_ && !progress.weight_gradient[at]) missing(stage, ActionKind::kWeightGradient, mb);
    }
    if (trains_ && !progress.updated) missing(stage, ActionKind::kUpdate, -1);
  }

  void missing(int stage, ActionKind kind, int micro_batch) {
    if (problems_.full()) return problems_.add_untold();
    problems_.add("worker {}: {} is missing", worker_, to_string(Action{stage, kind, micro_batch}));
  }

  const Schedule& schedule_;
  int worker_;
  bool trains_;
  WeightOrder order_;
  Problems& problems_;
  std::map<int, Progress> stages_;
};

// Members of a group run the stages that they share in one order. Of workers that have the same
// stages each is compared with the first of them, and those with each other.
class GroupCheck {
 public:
  GroupCheck(const Schedule& schedule, Problems& problems)
      : schedule_(schedule), problems_(problems), stages_(static_cast<size_t>(schedule.workers())) {
    for (int stage = 0; stage < schedule.stages(); ++stage)
      for (const int worker : schedule.groups[static_cast<size_t>(stage)])
        stages_[static_cast<size_t>(worker)].insert(stage);
  }

  void run() {
    for (const std::vector<int>& group : schedule_.groups) {
      std::map<std::set<int>, int> firsts;
      for (const int worker : group) {
        const auto [first, fresh] = firsts.emplace(stages_[static_cast<size_t>(worker)], worker);
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

  // The next action from `at` on that both run; null if there is none.
  const Action* next(int worker, int other, size_t& at) const {
    const std::vector<Action>& row = schedule_.rows[static_cast<size_t>(worker)];
    const std::set<int>& shared = stages_[static_cast<size_t>(other)];
    while (at < row.size() && !shared.contains(row[at].stage)) ++at;
    return at < row.size() ? &row[at++] : nullptr;
  }

  void compare(int a, int b) {
    size_t at_a = 0;
    size_t at_b = 0;
    while (true) {
      const Action* first = next(a, b, at_a);
      const Action* second = next(b, a, at_b);
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
  std::vector<std::set<int>> stages_;  // by worker
  std::set<std::pair<int, int>> compared_;
};

std::string workers_text(const std::vector<int>& workers) {
  return kerf::format("{}", fmt::join(workers, ","));
}

}  // namespace

std::vector<std::string> check_order(const Schedule& schedule, WeightOrder order) {
  if (schedule.micro_batches < 1) return {"there must be at least 1 micro-batch"};
  Problems problems;
  const auto exists = [&](int worker) { return worker >= 0 && worker < schedule.workers(); };
  for (int stage = 0; stage < schedule.stages(); ++stage)
    if (!std::ranges::all_of(schedule.groups[static_cast<size_t>(stage)], exists)) {
      problems.add("stage {} is on a worker that does not exist", stage);
      return problems.take();
    }
  const bool trains = schedule.trains();
  for (int worker = 0; worker < schedule.workers(); ++worker)
    RowCheck(schedule, worker, trains, order, problems).run();
  GroupCheck(schedule, problems).run();
  return problems.take();
}

std::vector<std::string> check_fits(const Schedule& schedule, const partitioner::Plan& plan) {
  Problems problems;
  if (schedule.micro_batches != plan.micro_batches)
    problems.add("the schedule has {} micro-batches, the plan {}", schedule.micro_batches,
                 plan.micro_batches);
  if (schedule.workers() != plan.workers_bound())
    problems.add("the schedule has {} workers, the plan {}", schedule.workers(),
                 plan.workers_bound());
  const std::vector<std::vector<int>> groups = groups_of(plan);
  if (schedule.groups.size() != groups.size()) {
    problems.add("the schedule has {} stages, the plan {}", schedule.groups.size(), groups.size());
    return problems.take();
  }
  for (size_t stage = 0; stage < groups.size(); ++stage) {
    const std::vector<int>& have = schedule.groups[stage];
    const std::vector<int>& must = groups[stage];
    if (have == must) continue;
    if (std::is_permutation(have.begin(), have.end(), must.begin(), must.end()))
      problems.add(
          "the schedule lists the workers of stage {} as {}, the plan as {}: put them in "
          "the plan's order",
          stage, workers_text(have), workers_text(must));
    else
      problems.add("the schedule has stage {} on the workers {}, the plan on {}", stage,
                   workers_text(have), workers_text(must));
  }
  return problems.take();
}

std::vector<std::vector<int>> groups_of(const partitioner::Plan& plan) {
  std::vector<std::vector<int>> groups;
  for (const partitioner::Stage& stage : plan.stages) groups.push_back(plan.workers_of(stage));
  return groups;
}

}  // namespace kerf::schedmp
