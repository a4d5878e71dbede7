#include "schedmp/staircase.h"

#include <algorithm>
#include <map>
#include <optional>

#include "runtime/format.h"

namespace kerf::schedmp {

using partitioner::StageGraph;

namespace {

struct Placed {
  Action action;
  int begin = 0;
  int end = 0;
};

int duration(ActionKind kind) { return kind == ActionKind::kBackward ? 2 : 1; }

// Groups act as one. Rows that wait for something that never comes stop there.
class Unfolding {
 public:
  Unfolding(const Schedule& schedule, const StageGraph& graph)
      : schedule_(schedule), graph_(graph), rows(schedule.rows.size()) {
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
      const Action awaited = missing(action).value();  // nothing else can stop a row
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

  // The other stages' actions that this one needs.
  std::vector<Action> needed(const Action& action) const {
    const bool forward = action.kind == ActionKind::kForward;
    std::vector<Action> all;
    if ((!forward && !is_gradient(action)) || action.stage >= graph_.stages()) return all;
    const auto stage = static_cast<size_t>(action.stage);
    for (const int other : forward ? graph_.reads[stage] : graph_.gradients[stage])
      all.push_back(
          {other, forward ? ActionKind::kForward : ActionKind::kInputGradient, action.micro_batch});
    return all;
  }
  // The end of what a stage has done; none if it has not.
  std::optional<int> end_of(const Action& action) const {
    const auto& ends = action.kind == ActionKind::kForward ? forward_ : gradient_;
    const auto found = ends.find({action.stage, action.micro_batch});
    return found == ends.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<Action> missing(const Action& action) const {
    for (const Action& each : needed(action))
      if (!end_of(each)) return each;
    return std::nullopt;
  }

  static bool is_gradient(const Action& action) {
    return action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
  }

  bool place(size_t worker) {
    const Action& action = schedule_.rows[worker][rows[worker].size()];
    if (missing(action)) return false;
    int ready = rows[worker].empty() ? 0 : rows[worker].back().end;
    for (const Action& each : needed(action)) ready = std::max(ready, end_of(each).value());
    const int end = ready + duration(action.kind);
    const Key here{action.stage, action.micro_batch};
    if (action.kind == ActionKind::kForward) forward_[here] = std::max(forward_[here], end);
    if (is_gradient(action)) gradient_[here] = std::max(gradient_[here], end);
    rows[worker].push_back({action, ready, end});
    return true;
  }

  const Schedule& schedule_;
  const StageGraph& graph_;
  std::map<Key, int> forward_, gradient_;

 public:
  std::vector<std::vector<Placed>> rows;
};

}  // namespace

std::vector<std::string> check_waits(const Schedule& schedule, const StageGraph& graph) {
  return Unfolding(schedule, graph).stuck();
}

std::string draw_staircase(const Schedule& schedule, const StageGraph& graph) {
  const Unfolding unfolding(schedule, graph);
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

Bubble bubble(const Schedule& schedule, const StageGraph& graph) {
  const Unfolding unfolding(schedule, graph);
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
