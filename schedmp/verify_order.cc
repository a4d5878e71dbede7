// What the text of a schedule alone can prove: every action once, in a legal order.
#include <algorithm>
#include <map>

#include "runtime/format.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

namespace {

// What one worker has done of one stage so far.
struct Progress {
  std::vector<bool> forward, input_gradient, weight_gradient;
  int next_weight_gradient = 0;
  bool updated = false;

  explicit Progress(int micro_batches)
      : forward(static_cast<size_t>(micro_batches)),
        input_gradient(forward.size()),
        weight_gradient(forward.size()) {}
};

class RowCheck {
 public:
  RowCheck(const Schedule& schedule, int worker, std::vector<std::string>& problems)
      : schedule_(schedule), worker_(worker), problems_(problems) {}

  void run() {
    for (int stage = 0; stage < schedule_.stages(); ++stage)
      for (const int member : schedule_.groups[static_cast<size_t>(stage)])
        if (member == worker_) stages_.emplace(stage, Progress(schedule_.micro_batches));
    for (const Action& action : schedule_.rows[static_cast<size_t>(worker_)]) take(action);
    for (const auto& [stage, progress] : stages_) complete(stage, progress);
  }

 private:
  void problem(const Action& action, const std::string& what) {
    problems_.push_back(kerf::format("worker {}: {}: {}", worker_, to_string(action), what));
  }

  void take(const Action& action) {
    const auto found = stages_.find(action.stage);
    if (found == stages_.end()) return problem(action, "the stage is not this worker's");
    Progress& progress = found->second;
    if (action.kind == ActionKind::kUpdate) return take_update(action, progress);
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
        return problem(action, "this runtime cannot run this kind of action yet");
    }
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
    if (action.micro_batch != progress.next_weight_gradient)
      problem(action, kerf::format("weight gradients must go up by micro-batch; {} is next",
                                   progress.next_weight_gradient));
    progress.next_weight_gradient = action.micro_batch + 1;
    once(action, progress.weight_gradient);
  }

  void take_update(const Action& action, Progress& progress) {
    if (progress.updated) problem(action, "stands twice");
    if (progress.next_weight_gradient != schedule_.micro_batches)
      problem(action, "comes before every weight gradient is there");
    progress.updated = true;
  }

  void complete(int stage, const Progress& progress) {
    const bool trains = schedule_.trains();
    for (int mb = 0; mb < schedule_.micro_batches; ++mb) {
      const auto at = static_cast<size_t>(mb);
      if (!progress.forward[at]) missing(stage, ActionKind::kForward, mb);
      if (trains && !progress.input_gradient[at]) missing(stage, ActionKind::kInputGradient, mb);
      if (trains && !progress.weight_gradient[at]) missing(stage, ActionKind::kWeightGradient, mb);
    }
    if (trains && !progress.updated) missing(stage, ActionKind::kUpdate, -1);
  }

  void missing(int stage, ActionKind kind, int micro_batch) {
    problems_.push_back(kerf::format("worker {}: {} is missing", worker_,
                                     to_string(Action{stage, kind, micro_batch})));
  }

  const Schedule& schedule_;
  int worker_;
  std::vector<std::string>& problems_;
  std::map<int, Progress> stages_;
};

}  // namespace

std::vector<std::string> check_order(const Schedule& schedule) {
  std::vector<std::string> problems;
  if (schedule.micro_batches < 1) return {"there must be at least 1 micro-batch"};
  for (int worker = 0; worker < schedule.workers(); ++worker)
    RowCheck(schedule, worker, problems).run();
  const auto exists = [&](int worker) { return worker >= 0 && worker < schedule.workers(); };
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const std::vector<int>& group = schedule.groups[static_cast<size_t>(stage)];
    if (!std::ranges::all_of(group, exists)) {
      problems.push_back(kerf::format("stage {} is on a worker that does not exist", stage));
      continue;
    }
    for (const int member : group)
      if (schedule.rows[static_cast<size_t>(member)] !=
          schedule.rows[static_cast<size_t>(group[0])])
        problems.push_back(kerf::format("workers {} and {} share stage {} but not their row",
                                        group[0], member, stage));
  }
  return problems;
}

std::vector<std::string> check_fits(const Schedule& schedule, const partitioner::Plan& plan) {
  std::vector<std::string> problems;
  if (schedule.micro_batches != plan.micro_batches)
    problems.push_back(kerf::format("the schedule has {} micro-batches, the plan {}",
                                    schedule.micro_batches, plan.micro_batches));
  if (schedule.workers() != plan.parts())
    problems.push_back(
        kerf::format("the schedule has {} workers, the plan {}", schedule.workers(), plan.parts()));
  if (schedule.groups != groups_of(plan))
    problems.push_back("the schedule's stages are not on the workers where the plan has them");
  return problems;
}

std::vector<std::vector<int>> groups_of(const partitioner::Plan& plan) {
  std::vector<std::vector<int>> groups;
  for (const partitioner::Stage& stage : plan.stages) {
    std::vector<int>& group = groups.emplace_back();
    for (const int part : stage.parts) group.push_back(plan.binding[static_cast<size_t>(part)]);
  }
  return groups;
}

}  // namespace kerf::schedmp
