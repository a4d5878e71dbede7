#include "tests/schedmp/random_rows.h"

#include <set>

namespace kerf::schedmp {
namespace {

using partitioner::draw;
using partitioner::Model;
using partitioner::Plan;
using partitioner::Random;

class Rows {
 public:
  Rows(const Model& model, const Plan& plan, Random& random, Order order, Recomputes recomputes)
      : random_(random), recomputes_(recomputes == Recomputes::kSome && draw(random, 2) == 0) {
    rows_ = {"random", plan.micro_batches, groups_of(plan), {}};
    rows_.rows.resize(static_cast<size_t>(plan.workers_bound()));
    stages_.resize(plan.stages.size());
    for (partitioner::ValueId id = 0; id < model.values(); ++id)
      for (const partitioner::Use& use : model.uses(id)) {
        if (model.value(id).producer < 0) continue;
        const int from = plan.stage_of(model.value(id).producer);
        const int to = plan.stage_of(use.node);
        if (from == to || order == Order::kAny) continue;
        stages_[static_cast<size_t>(from)].later.insert(to);
        stages_[static_cast<size_t>(to)].earlier.insert(from);
      }
    // A running sum goes by stages that read nothing of each other, too.
    const std::vector<int> stage_of = stages_of_parts(plan);
    for (const partitioner::Route& route : plan.routes) {
      const int from = stage_of[static_cast<size_t>(route.from)];
      const int to = stage_of[static_cast<size_t>(route.to)];
      if (route.gradient && from != to && order == Order::kPossible && !is_of_step(model, route))
        stages_[static_cast<size_t>(to)].later.insert(from);
    }
    for (Stage& stage : stages_) {
      stage.forward.resize(static_cast<size_t>(plan.micro_batches));
      stage.input_gradient.resize(stage.forward.size());
      stage.recomputed.resize(stage.forward.size());
    }
  }

  Schedule run() {
    for (auto ready = candidates(); !ready.empty(); ready = candidates())
      take(ready[static_cast<size_t>(draw(random_, std::ssize(ready)))]);
    for (int stage = 0; stage < rows_.stages(); ++stage) put({stage, ActionKind::kUpdate});
    return std::move(rows_);
  }

 private:
  struct Stage {
    std::set<int> earlier, later;
    std::vector<bool> forward, recomputed, input_gradient;  // by micro-batch
    int weight_gradients = 0;                               // done, ascending
  };

  std::vector<Action> candidates() const {
    std::vector<Action> ready;
    for (int s = 0; s < rows_.stages(); ++s) {
      const Stage& stage = stages_[static_cast<size_t>(s)];
      const auto all = [&](const std::set<int>& others, auto done) {
        for (const int other : others)
          if (!done(stages_[static_cast<size_t>(other)])) return false;
        return true;
      };
      for (int m = 0; m < rows_.micro_batches; ++m) {
        const auto at = static_cast<size_t>(m);
        if (!stage.forward[at]) {
          if (all(stage.earlier, [&](const Stage& other) { return other.forward[at]; }))
            ready.push_back({s, ActionKind::kForward, m});
        } else if (!stage.input_gradient[at]) {
          if (recomputes_ && !stage.recomputed[at]) ready.push_back({s, ActionKind::kRecompute, m});
          if (!all(stage.later, [&](const Stage& other) { return other.input_gradient[at]; }))
            continue;
          ready.push_back({s, ActionKind::kInputGradient, m});
          if (stage.weight_gradients == m) ready.push_back({s, ActionKind::kBackward, m});
        } else if (stage.weight_gradients == m) {
          ready.push_back({s, ActionKind::kWeightGradient, m});
        }
      }
    }
    return ready;
  }

  void take(const Action& action) {
    Stage& stage = stages_[static_cast<size_t>(action.stage)];
    const auto at = static_cast<size_t>(action.micro_batch);
    if (action.kind == ActionKind::kForward)
      stage.forward[at] = true;
    else if (action.kind == ActionKind::kRecompute)
      stage.recomputed[at] = true;
    else if (action.kind != ActionKind::kWeightGradient)
      stage.input_gradient[at] = true;
    if (action.kind == ActionKind::kWeightGradient || action.kind == ActionKind::kBackward)
      ++stage.weight_gradients;
    put(action);
    if (stage.weight_gradients == rows_.micro_batches && draw(random_, 2) == 0)
      put({action.stage, ActionKind::kReduceGradient});
  }

  void put(const Action& action) {
    for (const int worker : rows_.groups[static_cast<size_t>(action.stage)])
      rows_.rows[static_cast<size_t>(worker)].push_back(action);
  }

  Random& random_;
  const bool recomputes_;
  Schedule rows_;
  std::vector<Stage> stages_;
};

}  // namespace

Schedule random_rows(const Model& model, const Plan& plan, Random& random, Order order,
                     Recomputes recomputes) {
  return Rows(model, plan, random, order, recomputes).run();
}

}  // namespace kerf::schedmp
