// The staircase: a schedule unfolded in time, with unit costs and free communication.
#include <algorithm>
#include <map>

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

 private:
  using Key = std::pair<int, int>;  // stage, micro-batch

  bool place(size_t worker) {
    const Action& action = schedule_.rows[worker][rows[worker].size()];
    const Key here{action.stage, action.micro_batch};
    int ready = rows[worker].empty() ? 0 : rows[worker].back().end;
    if (action.kind == ActionKind::kForward && action.stage > 0) {
      const auto before = forward_.find({action.stage - 1, action.micro_batch});
      if (before == forward_.end()) return false;
      ready = std::max(ready, before->second);
    }
    const bool gradient =
        action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
    if (gradient && action.stage + 1 < schedule_.stages()) {
      const auto after = gradient_.find({action.stage + 1, action.micro_batch});
      if (after == gradient_.end()) return false;
      ready = std::max(ready, after->second);
    }
    const int end = ready + duration(action.kind);
    if (action.kind == ActionKind::kForward) forward_[here] = std::max(forward_[here], end);
    if (gradient) gradient_[here] = std::max(gradient_[here], end);
    rows[worker].push_back({action, ready, end});
    return true;
  }

  const Schedule& schedule_;
  std::map<Key, int> forward_, gradient_;

 public:
  std::vector<std::vector<Placed>> rows;
};

}  // namespace

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
      if (placed.action.kind == ActionKind::kUpdate) continue;
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
