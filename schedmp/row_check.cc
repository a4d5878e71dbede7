#include "schedmp/row_check.h"

#include <algorithm>
#include <map>

namespace kerf::schedmp {

namespace {

// What one worker has done of one stage so far, by micro-batch.
struct Progress {
  int replica = 0;  // that the worker is of
  std::vector<bool> forward, input_gradient, weight_gradient, recomputed, offloaded;
  int next_weight_gradient = 0;  // the lowest that may come, among those of the replica
  int weight_gradients = 0;
  int reduced = 0;      // micro-batches whose gradients are, at least
  int updated = 0;      // likewise
  bool summed = false;  // REDUCE_GRAD of the step was there
  bool over = false;

  Progress(int of_replica, int micro_batches)
      : replica(of_replica),
        forward(static_cast<size_t>(micro_batches)),
        input_gradient(forward.size()),
        weight_gradient(forward.size()),
        recomputed(forward.size()),
        offloaded(forward.size()) {}
};

// The micro-batches of each replica.
class Shares {
 public:
  explicit Shares(const Schedule& schedule)
      : counts_(static_cast<size_t>(schedule.replicas)),
        up_to_(static_cast<size_t>(schedule.micro_batches)),
        next_(up_to_.size()),
        firsts_(counts_.size(), schedule.micro_batches) {
    for (int mb = 0; mb < schedule.micro_batches; ++mb)
      up_to_[static_cast<size_t>(mb)] = ++counts_[static_cast<size_t>(schedule.replica(mb))];
    for (int mb = schedule.micro_batches; mb-- > 0;)
      next_[static_cast<size_t>(mb)] =
          std::exchange(firsts_[static_cast<size_t>(schedule.replica(mb))], mb);
  }

  int count(int replica) const { return counts_[static_cast<size_t>(replica)]; }
  // How many of its replica's are no later than this one.
  int up_to(int micro_batch) const { return up_to_[static_cast<size_t>(micro_batch)]; }
  int first(int replica) const { return firsts_[static_cast<size_t>(replica)]; }
  // Behind it the next of its replica.
  int next(int micro_batch) const { return next_[static_cast<size_t>(micro_batch)]; }

 private:
  std::vector<int> counts_;        // by replica
  std::vector<int> up_to_, next_;  // by micro-batch
  std::vector<int> firsts_;        // by replica
};

class RowCheck {
 public:
  // `trains`: the schedule does.
  RowCheck(const Schedule& schedule, const Shares& shares, int worker, bool trains,
           Problems& problems)
      : schedule_(schedule),
        shares_(shares),
        worker_(worker),
        trains_(trains),
        problems_(problems) {}

  void run() {
    const std::vector<int> groups = mine();
    if (!may_be_complete(groups.size())) return;
    for (const int group : groups) {
      const int stage = group % schedule_.stages();
      Progress progress(group / schedule_.stages(), schedule_.micro_batches);
      progress.next_weight_gradient = shares_.first(progress.replica);
      if (!stages_.emplace(stage, std::move(progress)).second)
        problems_.add("worker {} is in two replicas of stage {}", worker_, stage);
    }
    for (const Action& action : schedule_.rows[static_cast<size_t>(worker_)]) take(action);
    for (const auto& [stage, progress] : stages_) complete(stage, progress);
  }

 private:
  std::vector<int> mine() const {
    std::vector<int> groups;
    for (size_t number = 0; number < schedule_.groups.size(); ++number) {
      const std::vector<int>& group = schedule_.groups[number];
      if (std::find(group.begin(), group.end(), worker_) != group.end())
        groups.push_back(static_cast<int>(number));
    }
    return groups;
  }

  // What no row can hold is not looked at action by action: a short text can ask for millions.
  bool may_be_complete(size_t groups) const {
    const auto least = static_cast<int64_t>(groups) * schedule_.micro_batches / schedule_.replicas;
    if (least <= kMostActions) return true;
    problems_.add("worker {}: {} stages of {} micro-batches are more than {} actions", worker_,
                  groups, schedule_.micro_batches, kMostActions);
    return false;
  }

  void problem(const Action& action, const std::string& what) {
    problems_.add("worker {}: {}: {}", worker_, to_string(action), what);
  }

  void take(const Action& action) {
    const auto found = stages_.find(action.stage);
    if (found == stages_.end()) return problem(action, "the stage is not this worker's");
    Progress& progress = found->second;
    const bool of_step = action.micro_batch < 0 && is_of_updates(action.kind);
    if (!of_step && !is_mine(action, progress)) return;
    if (progress.over && action.kind != ActionKind::kUpdate)
      return problem(action, "comes after the stage's update");
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
      case ActionKind::kRecompute:
        if (is_kept(action, progress)) once(action, progress.recomputed);
        return;
      case ActionKind::kOffload:
      case ActionKind::kReload:
        return move(action, progress);
      case ActionKind::kReduceGradient:
        return take_reduction(action, progress);
      case ActionKind::kUpdate:
        return take_update(action, progress);
      default:
        return problem(action, "what is sent follows from the plan");
    }
  }

  bool is_mine(const Action& action, const Progress& progress) {
    if (action.micro_batch < 0 || action.micro_batch >= schedule_.micro_batches) {
      problem(action, "there is no such micro-batch");
      return false;
    }
    const int replica = schedule_.replica(action.micro_batch);
    if (replica == progress.replica) return true;
    problem(action, kerf::format("the micro-batch goes through replica {}, and this is of {}",
                                 replica, progress.replica));
    return false;
  }

  void once(const Action& action, std::vector<bool>& done) {
    if (done[static_cast<size_t>(action.micro_batch)]) problem(action, "stands twice");
    done[static_cast<size_t>(action.micro_batch)] = true;
  }

  // Whether there is what a forward keeps for gradients.
  bool is_kept(const Action& action, const Progress& progress) {
    const auto at = static_cast<size_t>(action.micro_batch);
    if (!progress.forward[at])
      problem(action, "comes before its forward");
    else if (progress.input_gradient[at])
      problem(action, "comes after its input gradient");
    else
      return true;
    return false;
  }

  void move(const Action& action, Progress& progress) {
    if (!is_kept(action, progress)) return;
    const auto at = static_cast<size_t>(action.micro_batch);
    const bool away = action.kind == ActionKind::kOffload;
    if (progress.offloaded[at] == away)
      problem(action, away ? "is offloaded already" : "was not offloaded");
    progress.offloaded[at] = away;
  }

  void take_input_gradient(const Action& action, Progress& progress) {
    const auto at = static_cast<size_t>(action.micro_batch);
    if (!progress.forward[at]) problem(action, "comes before its forward");
    if (progress.offloaded[at]) problem(action, "needs what is offloaded; RELOAD it before");
    once(action, progress.input_gradient);
  }

  void take_weight_gradient(const Action& action, Progress& progress) {
    const auto at = static_cast<size_t>(action.micro_batch);
    if (!progress.input_gradient[at]) problem(action, "comes before its input gradient");
    if (!schedule_.any_weight_order && action.micro_batch != progress.next_weight_gradient)
      problem(action, kerf::format("weight gradients must go up by micro-batch; {} is next",
                                   progress.next_weight_gradient));
    progress.next_weight_gradient = shares_.next(action.micro_batch);
    if (!progress.weight_gradient[at]) ++progress.weight_gradients;
    once(action, progress.weight_gradient);
  }

  // Of how many of its micro-batches it takes the gradients, if they are there and no others.
  int taken(const Action& action, const Progress& progress) {
    if (action.micro_batch >= 0 && schedule_.replicas > 1)
      problem(action, "stages with replicas have one update, at the end, and it names none");
    const int count = action.micro_batch < 0 ? shares_.count(progress.replica)
                                             : shares_.up_to(action.micro_batch);
    if (progress.weight_gradients < count)
      problem(action, "comes before every weight gradient is there");
    if (progress.weight_gradients > count)
      problem(action, "comes after a weight gradient of a later micro-batch");
    return count;
  }

  // It may be left out: then the update begins with it.
  void take_reduction(const Action& action, Progress& progress) {
    const int count = taken(action, progress);
    if (progress.summed || (count <= progress.reduced && count > 0))
      problem(action, "stands twice");
    if (count <= progress.updated && count > 0) problem(action, "comes after the update");
    progress.reduced = count;
    progress.summed = action.micro_batch < 0;
  }

  void take_update(const Action& action, Progress& progress) {
    const int count = taken(action, progress);
    if (progress.over || (count <= progress.updated && count > 0)) problem(action, "stands twice");
    if (schedule_.replicas > 1 && !progress.summed)
      problem(action, "needs a REDUCE_GRAD before it: the stage has replicas");
    if (action.micro_batch < 0 && progress.updated > 0 && !progress.over)
      problem(action, "names no micro-batch, as the stage's updates before it do");
    progress.updated = count;
    progress.over = action.micro_batch < 0;
  }

  void complete(int stage, const Progress& progress) {
    for (int mb = shares_.first(progress.replica); mb < schedule_.micro_batches;
         mb = shares_.next(mb)) {
      const auto at = static_cast<size_t>(mb);
      if (!progress.forward[at]) missing(stage, ActionKind::kForward, mb);
      if (trains_ && !progress.input_gradient[at]) missing(stage, ActionKind::kInputGradient, mb);
      if (trains_ && !progress.weight_gradient[at]) missing(stage, ActionKind::kWeightGradient, mb);
    }
    // One that gives the replica nothing to do is not exempt: the others' gradients are its too.
    if (trains_ && !progress.over &&
        progress.updated < std::max(shares_.count(progress.replica), 1))
      missing(stage, ActionKind::kUpdate, -1);
  }

  void missing(int stage, ActionKind kind, int micro_batch) {
    if (problems_.full()) return problems_.add_untold();
    problems_.add("worker {}: {} is missing", worker_, to_string(Action{stage, kind, micro_batch}));
  }

  const Schedule& schedule_;
  const Shares& shares_;
  int worker_;
  bool trains_;
  Problems& problems_;
  std::map<int, Progress> stages_;
};

}  // namespace

void check_rows(const Schedule& schedule, Problems& problems) {
  const bool trains = schedule.trains();
  const Shares shares(schedule);
  for (int worker = 0; worker < schedule.workers(); ++worker)
    RowCheck(schedule, shares, worker, trains, problems).run();
}

}  // namespace kerf::schedmp
