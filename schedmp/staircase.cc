// The staircase: a schedule unfolded in time, with unit costs and free communication.
#include <algorithm>
#include <map>
#include <optional>

#include "runtime/format.h"
#include "schedmp/schedule.h"

namespace kerf::schedmp {

namespace {

struct Placed {
  Action action;
  int begin = 0;
  int end = 0;
};

int duration(ActionKind kind) { return kind == ActionKind::kBackward ? 2 : 1; }

// Neighbouring stages depend on each other, as in a chain; groups act as one. Rows that wait for
// something that never comes stop there.
class Unfolding {
 public:
  explicit Unfolding(const Schedule& schedule) : schedule_(schedule), rows(schedule.rows.size()) {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t worker = 0; worker < rows.size(); ++worker)
        while (rows[worker].size() < schedule.rows[worker].size() && place(worker)) moved = true;
    }
  }

  std::vector<std::string> stuck() const {
    std::vector<std::string> problems;
    for (size_t worker = 0; worker < rows.size(); ++worker) {
      if (rows[worker].size() == schedule_.rows[worker].size()) continue;
      const Action& action = schedule_.rows[worker][rows[worker].size()];
      const Action awaited = needed(action).value();  // nothing else can stop a row
      problems.push_back(
          kerf::format("worker {}: {}: waits for ever for {} of micro-batch {} on "
                       "stage {}",
                       worker, to_string(action),
                       awaited.kind == ActionKind::kForward ? "the forward" : "the gradient",
                       awaited.micro_batch, awaited.stage));
    }
    return problems;
  }

 private:
  using Key = std::pair<int, int>;  // stage, micro-batch

  // The neighbour's action that this one needs; none at the chain's ends.
  std::optional<Action> needed(const Action& action) const {
    if (action.kind == ActionKind::kForward && action.stage > 0)
      return Action{action.stage - 1, ActionKind::kForward, action.micro_batch};
    if (is_gradient(action) && action.stage + 1 < schedule_.stages())
      return Action{action.stage + 1, ActionKind::kInputGradient, action.micro_batch};
    return std::nullopt;
  }

  static bool is_gradient(const Action& action) {
    return action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
  }

  bool place(size_t worker) {
    const Action& action = schedule_.rows[worker][rows[worker].size()];
    int ready = rows[worker].empty() ? 0 : rows[worker].back().end;
    if (const auto before = needed(action)) {
      const auto& ends = before->kind == ActionKind::kForward ? forward_ : gradient_;
      const auto at = ends.find({before->stage, before->micro_batch});
      if (at == ends.end()) return false;
      ready = std::max(ready, at->second);
    }
    const int end = ready + duration(action.kind);
    const Key here{action.stage, action.micro_batch};
    if (action.kind == ActionKind::kForward) forward_[here] = std::max(forward_[here], end);
    if (is_gradient(action)) gradient_[here] = std::max(gradient_[here], end);
    rows[worker].push_back({action, ready, end});
    return true;
  }

  const Schedule& schedule_;
  std::map<Key, int> forward_, gradient_;

 public:
  std::vector<std::vector<Placed>> rows;
};

}  // namespace

std::vector<std::string> check_chain(const Schedule& schedule) {
  return Unfolding(schedule).stuck();
}

std::string draw_staircase(const Schedule& schedule) {
  const Unfolding unfolding(schedule);
  size_t width = 1;
  for (const auto& row : unfolding.rows)
    for (const Placed& placed : row) width = std::max(width, to_string(placed.action).size());
  std::string text;
  for (size_t worker = 0; worker < unfolding.rows.size(); ++worker) {
    std::string line = kerf::format("worker {:<3}", worker);
    int now = 0;
    for (const Placed& placed : unfolding.rows[worker]) {
      line.append(static_cast<size_t>(placed.begin - now) * (width + 1), ' ');
      const size_t room = static_cast<size_t>(placed.end - placed.begin) * (width + 1) - 1;
      line += kerf::format("{:<{}} ", to_string(placed.action), room);
      now = placed.end;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Bubble bubble(const Schedule& schedule) {
  const Unfolding unfolding(schedule);
  int makespan = 0, longest_span = 0, most_work = 0;
  double work = 0;
  for (const auto& row : unfolding.rows) {
    int begin = -1, end = 0, own = 0;
    for (const Placed& placed : row) {
      if (placed.action.micro_batch < 0) continue;
      if (begin < 0) begin = placed.begin;
      end = placed.end;
      own += placed.end - placed.begin;
    }
    makespan = std::max(makespan, end);
    longest_span = std::max(longest_span, end - std::max(begin, 0));
    most_work = std::max(most_work, own);
    work += own;
  }
  if (makespan == 0) return {};
  const double mean = work / static_cast<double>(unfolding.rows.size());
  return {1 - mean / makespan, 1 - static_cast<double>(most_work) / longest_span};
}

}  // namespace kerf::schedmp
