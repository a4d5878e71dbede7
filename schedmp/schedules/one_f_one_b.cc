// stage 0  F0 F1 F2       B0 F3 B1    B2    B3 U
// stage 1     F0 F1    B0 F2 B1 F3 B2    B3 U
// stage 2        F0 B0 F1 B1 F2 B2 F3 B3 U
//
// A stage that is d hops from the end (stage_graph.h: in a chain of p stages on workers of their
// own p - s - 1 of stage s) warms up with d forwards, so it never holds more than d + 1
// micro-batches. While the last stage takes a micro-batch forward and back, every other takes one
// forward and one back, so that d + 1 are under way between a stage and the end. It can run
// whatever the graph: with F(s, m) at the moment 2m + D - d and B(s, m) at 2m + D + d + 1, where D
// is the most of any stage, what an action waits for has an earlier moment, as d falls along every
// edge to other workers, or the same one on the same worker.
//
// A worker of several stages runs their actions in the order in which workers of one stage each
// would come to them, one action a moment: an order in which everything can run. Stages that follow
// each other on a worker act in one moment, as if they were one.
#include <algorithm>
#include <utility>

#include "runtime/error.h"
#include "schedmp/schedules.h"

namespace kerf::schedmp {

namespace {

constexpr int64_t kMostLooks = int64_t{1} << 28;  // at a stage, in a moment

std::vector<Action> row_of(int stage, int hops, int micro_batches) {
  std::vector<Action> row;
  const int warm_up = std::min(micro_batches, hops);
  for (int mb = 0; mb < warm_up; ++mb) row.push_back({stage, ActionKind::kForward, mb});
  for (int mb = 0; mb < micro_batches; ++mb) {
    if (mb + warm_up < micro_batches) row.push_back({stage, ActionKind::kForward, mb + warm_up});
    row.push_back({stage, ActionKind::kBackward, mb});
  }
  return row;
}

// What the stages do in each moment: one action each of what waits for nothing of the same moment
// but on its own workers. The last stage first.
class Moments {
 public:
  Moments(const Pipeline& pipeline, int micro_batches)
      : pipeline_(pipeline), at_(pipeline.groups.size()), now_{at_, at_}, before_(now_) {
    const std::vector<int> hops = hops_to_the_end(pipeline);
    for (int stage = 0; stage < pipeline.graph.stages(); ++stage)
      rows_.push_back(row_of(stage, hops[static_cast<size_t>(stage)], micro_batches));
  }

  // Empty at the end.
  std::vector<Action> next() {
    std::vector<Action> moment;
    std::vector<bool> acted(rows_.size());
    before_ = now_;
    for (bool more = true; std::exchange(more, false);)
      for (size_t stage = rows_.size(); stage-- > 0;) {
        if (acted[stage] || at_[stage] == rows_[stage].size()) continue;
        const Action& action = rows_[stage][at_[stage]];
        if (!may(stage, action)) continue;
        acted[stage] = more = true;
        ++at_[stage];
        if (action.kind == ActionKind::kForward) ++now_.forward[stage];
        if (action.kind == ActionKind::kBackward) ++now_.backward[stage];
        moment.push_back(action);
      }
    return moment;
  }

 private:
  struct Done {  // by stage
    std::vector<size_t> forward, backward;
  };

  bool may(size_t stage, const Action& action) const {
    const auto micro_batch = static_cast<size_t>(action.micro_batch);
    const bool forward = action.kind == ActionKind::kForward;
    const auto& others = forward ? pipeline_.graph.reads[stage] : pipeline_.graph.gradients[stage];
    return std::all_of(others.begin(), others.end(), [&](int other) {
      const auto it = static_cast<size_t>(other);
      const Done& seen = pipeline_.groups[it] == pipeline_.groups[stage] ? now_ : before_;
      return (forward ? seen.forward : seen.backward)[it] > micro_batch;
    });
  }

  const Pipeline& pipeline_;
  std::vector<std::vector<Action>> rows_;  // by stage
  std::vector<size_t> at_;                 // by stage: actions done
  Done now_, before_;                      // before this moment
};

bool has_one_stage_each(const Schedule& schedule) {
  size_t members = 0;
  for (const std::vector<int>& group : schedule.groups) members += group.size();
  return members == schedule.rows.size();
}

}  // namespace

Schedule one_f_one_b(const Pipeline& pipeline, int micro_batches) {
  const std::vector<std::vector<int>>& groups = pipeline.groups;
  KERF_CHECK(std::ssize(groups) == pipeline.graph.stages(), "{} stages, and a graph of {}",
             groups.size(), pipeline.graph.stages());
  Schedule schedule{"1f1b", micro_batches, groups, {}};
  schedule.rows.resize(static_cast<size_t>(count_workers(groups)));
  const auto add = [&](const Action& action) {
    for (const int worker : groups[static_cast<size_t>(action.stage)])
      schedule.rows[static_cast<size_t>(worker)].push_back(action);
  };
  if (has_one_stage_each(schedule)) {  // whose order nothing else decides
    const std::vector<int> hops = hops_to_the_end(pipeline);
    for (int stage = 0; stage < pipeline.graph.stages(); ++stage)
      for (const Action& action : row_of(stage, hops[static_cast<size_t>(stage)], micro_batches))
        add(action);
  } else {
    const auto stages = static_cast<int64_t>(groups.size());
    if (stages * (stages + micro_batches) > kMostLooks)
      throw Error(ErrorCode::kUsage,
                  kerf::format("1F1B of {} stages that share workers is more than can be unrolled; "
                               "use fewer",
                               stages));
    Moments moments(pipeline, micro_batches);
    for (auto moment = moments.next(); !moment.empty(); moment = moments.next())
      for (const Action& action : moment) add(action);
  }
  for (int stage = pipeline.graph.stages() - 1; stage >= 0; --stage)
    add({stage, ActionKind::kUpdate});
  return schedule;
}

}  // namespace kerf::schedmp
