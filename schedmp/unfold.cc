#include "schedmp/unfold.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "ops/random.h"
#include "runtime/format.h"
#include "schedmp/lanes.h"

namespace kerf::schedmp {

using partitioner::at;
using partitioner::StageGraph;

double ActionCosts::of(const Action& action) const {
  const StageCosts& costs = of_stage(action.stage);
  const double share = share_of(action.micro_batch).seconds;
  switch (action.kind) {
    case ActionKind::kForward:
    case ActionKind::kRecompute:
      return share * costs.forward;
    case ActionKind::kInputGradient:
      return share * costs.input_gradient;
    case ActionKind::kWeightGradient:
      return share * costs.weight_gradient;
    case ActionKind::kBackward:
      return share * (costs.input_gradient + costs.weight_gradient);
    case ActionKind::kUpdate:
      return costs.update;
    default:
      return 0;
  }
}

double ActionCosts::of(const Action& action, int worker, size_t number) const {
  double cost = of(action);
  const auto index = static_cast<size_t>(worker);
  if (index < speeds.size()) cost /= speeds[index];
  if (jitter > 0)
    cost *= 1 + jitter * static_cast<double>(ops::uniform(
                             {.seed = seed, .purpose = static_cast<uint32_t>(worker), .step = step},
                             static_cast<int64_t>(number)));
  return cost;
}

std::string to_string(Buffering buffering) {
  if (buffering.messages == Buffering::kRendezvous) return "under rendezvous";
  if (buffering.messages == Buffering::kUnbounded) return "whatever may be under way";
  return kerf::format("with {} message{} under way", buffering.messages,
                      buffering.messages == 1 ? "" : "s");
}

namespace {

bool awaits_sent(const Action& action) {
  return action.kind == ActionKind::kAwaitSentForward ||
         action.kind == ActionKind::kAwaitSentGradient;
}

// The lanes of actions in rows that name their transfers: what computes takes up and hands on only
// what stays on its worker.
class NamedTransfers {
 public:
  NamedTransfers(const Schedule& schedule, const Lanes& lanes) {
    if (!schedule.transfers) return;
    for (const bool out : {false, true})
      for (const bool gradient : {false, true})
        for (size_t group = 0; group < schedule.groups.size(); ++group)
          for (const int lane : out ? lanes.out(group, gradient) : lanes.in(group, gradient))
            ends(out, gradient, lanes.is_local(lane), group).push_back(lane);
  }

  const std::vector<int>& of(const Action& action, size_t group, bool out) const {
    static const std::vector<int> none;
    const auto found = [&](bool sent, bool gradient, bool local) -> const std::vector<int>& {
      const auto at = ends_.find({sent, gradient, local, group});
      return at == ends_.end() ? none : at->second;
    };
    switch (action.kind) {
      case ActionKind::kForward:
        return found(out, false, true);
      case ActionKind::kInputGradient:
      case ActionKind::kBackward:
        return found(out, true, true);
      case ActionKind::kSendForward:
        return out ? found(true, false, false) : none;
      case ActionKind::kSendGradient:
        return out ? found(true, true, false) : none;
      case ActionKind::kReceiveForward:
        return out ? none : found(false, false, false);
      case ActionKind::kReceiveGradient:
        return out ? none : found(false, true, false);
      case ActionKind::kAwaitSentForward:
        return out ? none : found(true, false, false);
      case ActionKind::kAwaitSentGradient:
        return out ? none : found(true, true, false);
      default:
        return none;
    }
  }

 private:
  using Key = std::tuple<bool, bool, bool, size_t>;  // out, gradient, local, group
  std::vector<int>& ends(bool out, bool gradient, bool local, size_t group) {
    return ends_[{out, gradient, local, group}];
  }

  std::map<Key, std::vector<int>> ends_;
};

class Unfolding {
 public:
  Unfolding(const Schedule& schedule, const StageGraph& graph, const ActionCosts& costs,
            Buffering buffering)
      : schedule_(schedule),
        costs_(costs),
        lanes_(schedule, graph, costs, buffering),
        named_(schedule, lanes_),
        workers_(schedule.rows.size()),
        waiting_(static_cast<size_t>(lanes_.count())),
        rows(schedule.rows.size()) {
    for (int worker = schedule.workers() - 1; worker >= 0; --worker) {
      rows[static_cast<size_t>(worker)].reserve(row(worker).size());
      ready_.push_back(worker);
    }
    while (!ready_.empty()) {
      const int worker = ready_.back();
      ready_.pop_back();
      while (!over(worker) && pass(worker)) {
      }
    }
  }

  // From the first worker that waits along whom each waits for, until there it is in a circle.
  std::vector<std::string> stuck() const {
    int worker = 0;
    while (worker < schedule_.workers() && over(worker)) ++worker;
    if (worker == schedule_.workers()) return {};
    std::vector<int> path;
    while (!over(worker) && std::find(path.begin(), path.end(), worker) == path.end()) {
      path.push_back(worker);
      worker = awaited_by(worker);
    }
    if (!over(worker)) path.erase(path.begin(), std::find(path.begin(), path.end(), worker));
    std::vector<std::string> told;
    for (const int member : path) told.push_back(tell(member));
    return told;
  }

 private:
  // An action is gone through in steps: it takes up its messages, it computes, and it sends.
  struct Worker {
    size_t action = 0;
    size_t step = 0;
    bool first = true;  // the step was not tried before
    double now = 0;
  };

  const std::vector<Action>& row(int worker) const {
    return schedule_.rows[static_cast<size_t>(worker)];
  }
  const Worker& of(int worker) const { return workers_[static_cast<size_t>(worker)]; }
  bool over(int worker) const { return of(worker).action == row(worker).size(); }

  static bool is_gradient(const Action& action) {
    return action.kind == ActionKind::kInputGradient || action.kind == ActionKind::kBackward;
  }
  // None of an action that is not the worker's: such a row is refuted, and unfolded for people.
  const std::vector<int>& lanes_of(const Action& action, int worker, bool out) const {
    static const std::vector<int> none;
    const bool gradient = is_gradient(action);
    const bool known = action.stage >= 0 && action.stage < schedule_.stages();
    if (known && action.micro_batch < 0) return sums_of(action, worker, out);
    if (!known || action.micro_batch >= schedule_.micro_batches) return none;
    const size_t group = schedule_.group(action.stage, action.micro_batch);
    const std::vector<int>& members = schedule_.groups[group];
    if (std::find(members.begin(), members.end(), worker) == members.end()) return none;
    if (schedule_.transfers) return named_.of(action, group, out);
    if (!gradient && action.kind != ActionKind::kForward) return none;
    return out ? lanes_.out(group, gradient) : lanes_.in(group, gradient);
  }

  // Of a step's end, where a stage has replicas.
  const std::vector<int>& sums_of(const Action& action, int worker, bool out) const {
    static const std::vector<int> none;
    if (schedule_.replicas == 1) return none;
    for (int replica = 0; replica < schedule_.replicas; ++replica) {
      const size_t group = at(schedule_.stages()) * at(replica) + at(action.stage);
      const std::vector<int>& members = schedule_.groups[group];
      if (std::find(members.begin(), members.end(), worker) == members.end()) continue;
      if (action.kind == ActionKind::kReduceGradient && out) return lanes_.sums_out(group);
      if (action.kind == ActionKind::kUpdate && !out) return lanes_.sums_in(group);
    }
    return none;
  }

  // One step; false where the worker has to wait.
  bool pass(int number) {
    Worker& worker = workers_[static_cast<size_t>(number)];
    const Action& action = row(number)[worker.action];
    const std::vector<int>& in = lanes_of(action, number, false);
    const std::vector<int>& out = lanes_of(action, number, true);
    if (worker.step == in.size()) {
      std::vector<Interval>& done = rows[static_cast<size_t>(number)];
      done.push_back({worker.now, worker.now + costs_.of(action, number, worker.action)});
      worker.now = done.back().end;
    } else {
      const bool sends = worker.step > in.size();
      const int lane = sends ? out[worker.step - in.size() - 1] : in[worker.step];
      const bool first = std::exchange(worker.first, false);
      const int message = std::max(action.micro_batch, 0);  // of a step there is one
      const auto moment = sends ? lanes_.send(lane, message, number, worker.now, first)
                          : awaits_sent(action) ? lanes_.taken(lane, message, worker.now)
                                                : lanes_.receive(lane, message, worker.now, first);
      if (first || moment) wake(lane);
      if (!moment) {
        waiting_[static_cast<size_t>(lane)].push_back(number);
        return false;
      }
      worker.now = *moment;
    }
    worker.first = true;
    if (++worker.step <= in.size() + out.size()) return true;
    worker.step = 0;
    ++worker.action;
    return true;
  }

  void wake(int lane) {
    std::vector<int>& waiting = waiting_[static_cast<size_t>(lane)];
    ready_.insert(ready_.end(), waiting.begin(), waiting.end());
    waiting.clear();
  }

  struct Wait {
    int lane = 0;
    bool sends = false;
  };
  Wait wait_of(int worker) const {
    const Action& action = row(worker)[of(worker).action];
    const size_t step = of(worker).step;
    const std::vector<int>& in = lanes_of(action, worker, false);
    if (step < in.size()) return {in[step], awaits_sent(action)};
    return {lanes_of(action, worker, true)[step - in.size() - 1], true};
  }

  // Of those at the other end one that waits itself, if any does.
  int awaited_by(int worker) const {
    const Wait wait = wait_of(worker);
    const int other = wait.sends ? lanes_.to(wait.lane) : lanes_.from(wait.lane);
    const std::vector<int>& group = schedule_.groups[static_cast<size_t>(other)];
    const auto waits = [&](int member) { return member != worker && !over(member); };
    const auto found = std::find_if(group.begin(), group.end(), waits);
    if (found != group.end()) return *found;
    return group.front();
  }

  std::string tell(int worker) const {
    const Action& action = row(worker)[of(worker).action];
    const Wait wait = wait_of(worker);
    const char* what = lanes_.is_gradient(wait.lane) ? "gradient" : "forward";
    if (lanes_.is_sum(wait.lane))
      return kerf::format("worker {}: {}: waits for ever for the gradients of replica {}", worker,
                          to_string(action), lanes_.from(wait.lane) / schedule_.stages());
    if (!wait.sends)
      return kerf::format("worker {}: {}: waits for ever for the {} of micro-batch {} on stage {}",
                          worker, to_string(action), what, action.micro_batch,
                          lanes_.from(wait.lane) % schedule_.stages());
    return kerf::format("worker {}: {}: waits for ever until stage {} takes up the {} of {}",
                        worker, to_string(action), lanes_.to(wait.lane) % schedule_.stages(), what,
                        "an earlier micro-batch, or this one");
  }

  const Schedule& schedule_;
  const ActionCosts& costs_;
  Lanes lanes_;
  NamedTransfers named_;
  std::vector<Worker> workers_;
  std::vector<std::vector<int>> waiting_;  // by lane: workers
  std::vector<int> ready_;

 public:
  std::vector<std::vector<Interval>> rows;
};

}  // namespace

Unfolded unfold(const Schedule& schedule, const StageGraph& graph, const ActionCosts& costs,
                Buffering buffering) {
  Unfolding unfolding(schedule, graph, costs, buffering);
  std::vector<std::string> stuck = unfolding.stuck();
  return {std::move(unfolding.rows), std::move(stuck)};
}

Unfolded computed_of(const Schedule& schedule, Unfolded unfolded) {
  for (size_t worker = 0; worker < unfolded.rows.size(); ++worker) {
    const std::vector<Interval> all = std::exchange(unfolded.rows[worker], {});
    for (size_t i = 0; i < all.size(); ++i)
      if (schedule.rows[worker][i].kind < ActionKind::kSendForward)
        unfolded.rows[worker].push_back(all[i]);
  }
  return unfolded;
}

int smallest_buffer(const Schedule& schedule, const StageGraph& graph) {
  const auto safe = [&](int messages) {
    return unfold(schedule, graph, {}, {messages}).stuck.empty();
  };
  int low = 0;  // is not enough
  int high = 1;
  while (!safe(high)) {
    if (high >= schedule.micro_batches) return -1;  // as many as there are of a lane
    low = std::exchange(high, std::min(2 * high, schedule.micro_batches));
  }
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (safe(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace kerf::schedmp
