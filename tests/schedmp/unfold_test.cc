// Unfolding a schedule on its stages' graph: times, and who waits for ever under which buffering.
#include "schedmp/unfold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/error.h"
#include "schedmp/action_costs.h"
#include "schedmp/schedules.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {
namespace {

using partitioner::chain_of_stages;
using partitioner::StageGraph;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Buffering kRendezvous{Buffering::kRendezvous};

Schedule parsed(const std::string& body) {
  return parse_schedule("kerf-schedule 1\nname x\n" + body, "test");
}

std::vector<std::string> stuck(const Schedule& schedule, Buffering buffering) {
  return unfold(schedule, chain_of_stages(schedule.stages()), {}, buffering).stuck;
}

// ---- an oracle: every order in which messages can pass

// A worker's row as what it does with messages, written down by a plain reading of the graph.
struct Step {
  enum class Kind : uint8_t { kReceive, kSend } kind{};
  int from = 0;  // stage
  int to = 0;
  bool gradient = false;
  int micro_batch = 0;
  bool same(const Step& other) const {
    return from == other.from && to == other.to && gradient == other.gradient &&
           micro_batch == other.micro_batch;
  }
};
using RandomSteps = std::vector<std::vector<Step>>;  // by worker

RandomSteps steps_of(const Schedule& schedule, const StageGraph& graph) {
  RandomSteps all;
  for (const auto& row : schedule.rows) {
    std::vector<Step>& steps = all.emplace_back();
    for (const Action& action : row) {
      const bool gradient =
          action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
      if (!gradient && action.kind != ActionKind::kForward) continue;
      const auto& edges = gradient ? graph.gradients : graph.reads;
      for (const int from : edges[static_cast<size_t>(action.stage)])
        steps.push_back({Step::Kind::kReceive, from, action.stage, gradient, action.micro_batch});
      for (int to = 0; to < graph.stages(); ++to)
        if (std::ranges::count(edges[static_cast<size_t>(to)], action.stage) > 0)
          steps.push_back({Step::Kind::kSend, action.stage, to, gradient, action.micro_batch});
    }
  }
  return all;
}

class Oracle {
 public:
  Oracle(const Schedule& schedule, const StageGraph& graph, Buffering buffering)
      : schedule_(schedule), steps_(steps_of(schedule, graph)), buffering_(buffering) {}

  bool can_stick() {
    std::vector<std::vector<size_t>> open{std::vector<size_t>(steps_.size())};
    std::set<std::vector<size_t>> seen{open.front()};
    while (!open.empty()) {
      const std::vector<size_t> at = open.back();
      open.pop_back();
      const auto next = successors(at);
      if (next.empty() && !over(at)) return true;
      for (const auto& each : next)
        if (seen.insert(each).second) open.push_back(each);
    }
    return false;
  }

 private:
  using State = std::vector<size_t>;  // how far each worker is

  bool over(const State& at) const {
    for (size_t worker = 0; worker < at.size(); ++worker)
      if (at[worker] < steps_[worker].size()) return false;
    return true;
  }
  bool local(const Step& step) const {
    return schedule_.groups[static_cast<size_t>(step.from)] ==
           schedule_.groups[static_cast<size_t>(step.to)];
  }
  // Messages of that edge, sent or taken up; of one micro-batch, or of all: -1.
  int count(const State& at, const Step& of, Step::Kind kind, int micro_batch) const {
    int found = 0;
    for (size_t worker = 0; worker < at.size(); ++worker)
      for (size_t i = 0; i < at[worker]; ++i) {
        const Step& step = steps_[worker][i];
        found += step.kind == kind && step.from == of.from && step.to == of.to &&
                 step.gradient == of.gradient &&
                 (micro_batch < 0 || step.micro_batch == micro_batch);
      }
    return found;
  }

  std::vector<State> successors(const State& at) const {
    std::vector<State> next;
    for (size_t worker = 0; worker < at.size(); ++worker) {
      if (at[worker] == steps_[worker].size()) continue;
      const Step& step = steps_[worker][at[worker]];
      const bool meets = buffering_.messages == Buffering::kRendezvous && !local(step);
      if (meets) {
        if (step.kind == Step::Kind::kSend) meet(at, worker, next);
        continue;
      }
      const int sent = count(at, step, Step::Kind::kSend, -1);
      const int taken = count(at, step, Step::Kind::kReceive, -1);
      const bool may = step.kind == Step::Kind::kReceive
                           ? count(at, step, Step::Kind::kSend, step.micro_batch) > 0
                           : buffering_.messages <= 0 || sent - taken < buffering_.messages;
      if (!may) continue;
      next.push_back(at);
      ++next.back()[worker];
    }
    return next;
  }
  void meet(const State& at, size_t sender, std::vector<State>& next) const {
    for (size_t worker = 0; worker < at.size(); ++worker) {
      if (at[worker] == steps_[worker].size()) continue;
      const Step& step = steps_[worker][at[worker]];
      if (step.kind != Step::Kind::kReceive || !step.same(steps_[sender][at[sender]])) continue;
      next.push_back(at);
      ++next.back()[worker];
      ++next.back()[sender];
    }
  }

  const Schedule& schedule_;
  RandomSteps steps_;
  Buffering buffering_;
};

// Every order of a row's actions in which no gradient comes before its forward, and W goes up.
std::vector<std::vector<Action>> legal_orders(const std::vector<int>& stages, int micro_batches,
                                              bool splits) {
  std::vector<Action> all;
  for (const int stage : stages)
    for (int m = 0; m < micro_batches; ++m) {
      all.push_back({stage, ActionKind::kForward, m});
      if (splits) all.push_back({stage, ActionKind::kWeightGradient, m});
      all.push_back({stage, splits ? ActionKind::kInputGradient : ActionKind::kBackward, m});
    }
  const auto less = [](const Action& a, const Action& b) {
    return std::tuple(a.stage, a.kind, a.micro_batch) < std::tuple(b.stage, b.kind, b.micro_batch);
  };
  std::sort(all.begin(), all.end(), less);
  std::vector<std::vector<Action>> legal;
  do {
    Schedule alone{"x", micro_batches, {}, {all}};
    for (int stage = 0; stage <= stages.back(); ++stage)
      alone.groups.push_back(std::ranges::count(stages, stage) > 0 ? std::vector<int>{0}
                                                                   : std::vector<int>{});
    for (const int stage : stages) alone.rows[0].push_back({stage, ActionKind::kUpdate});
    if (check_order(alone).empty()) legal.push_back(all);
  } while (std::next_permutation(all.begin(), all.end(), less));
  return legal;
}

// Calls `visit` with every choice of one row per worker.
template <class Visit>
void for_every_choice(const std::vector<std::vector<std::vector<Action>>>& rows,
                      const Visit& visit) {
  std::vector<size_t> choice(rows.size());
  while (true) {
    std::vector<std::vector<Action>> chosen;
    for (size_t worker = 0; worker < rows.size(); ++worker)
      chosen.push_back(rows[worker][choice[worker]]);
    visit(chosen);
    size_t worker = 0;
    while (worker < rows.size() && ++choice[worker] == rows[worker].size()) choice[worker++] = 0;
    if (worker == rows.size()) return;
  }
}

struct Seen {
  int safe = 0;
  int stuck = 0;
};
Seen compare_with_oracle(const std::vector<std::vector<int>>& groups, const StageGraph& graph,
                         int micro_batches, bool splits) {
  std::vector<std::vector<int>> stages_of(static_cast<size_t>(count_workers(groups)));
  for (size_t stage = 0; stage < groups.size(); ++stage)
    stages_of[static_cast<size_t>(groups[stage][0])].push_back(static_cast<int>(stage));
  std::vector<std::vector<std::vector<Action>>> rows;
  for (const auto& stages : stages_of) rows.push_back(legal_orders(stages, micro_batches, splits));
  Seen seen;
  for_every_choice(rows, [&](const std::vector<std::vector<Action>>& chosen) {
    const Schedule schedule{"x", micro_batches, groups, chosen};
    int least = -1;
    for (int k = micro_batches; k >= Buffering::kUnbounded; --k) {
      const bool sticks = Oracle(schedule, graph, {k}).can_stick();
      EXPECT_EQ(!unfold(schedule, graph, {}, {k}).stuck.empty(), sticks)
          << write_schedule(schedule) << to_string(Buffering{k});
      ++(sticks ? seen.stuck : seen.safe);
      if (k >= 1 && !sticks) least = k;
    }
    EXPECT_EQ(smallest_buffer(schedule, graph), least) << write_schedule(schedule);
  });
  return seen;
}

TEST(UnfoldOracle, AgreesOnEverySmallChain) {
  Seen all;
  const auto add = [&](const Seen& seen) {
    all.safe += seen.safe;
    all.stuck += seen.stuck;
  };
  add(compare_with_oracle({{0}}, chain_of_stages(1), 4, false));
  add(compare_with_oracle({{0}, {1}}, chain_of_stages(2), 2, false));
  add(compare_with_oracle({{0}, {1}, {2}, {3}}, chain_of_stages(4), 1, false));
  add(compare_with_oracle({{0}, {1}}, chain_of_stages(2), 2, true));
  add(compare_with_oracle({{0}, {1}, {2}}, chain_of_stages(3), 2, false));
  EXPECT_GT(all.safe, 400);
  EXPECT_GT(all.stuck, 250);
}

TEST(UnfoldOracle, AgreesWhereStagesShareWorkersAndEdgesSkip) {
  StageGraph skipping = chain_of_stages(3);
  skipping.reads[2] = {0, 1};
  skipping.gradients[0] = {1, 2};
  compare_with_oracle({{0}, {1}, {2}}, skipping, 2, false);
  const Seen seen = compare_with_oracle({{0}, {1}, {0}}, chain_of_stages(3), 2, false);
  EXPECT_GT(seen.safe, 50);
  EXPECT_GT(seen.stuck, 50);
}

// ---- what peers accept

// pytorch/pytorch#172668: each sends before it receives; a runtime whose sends wait for their
// receives hangs, and a check that lets every send finish sees nothing.
TEST(Unfold, RefutesSendsThatMeetUnderRendezvousAlone) {
  const Schedule schedule = parsed(
      "workers 2\nmicro-batches 3\nstage 0 on 0\nstage 1 on 1\n"
      "row 0: 0F0 0F1 0B0 0F2 0B1 0B2 0U\nrow 1: 1F0 1B0 1F1 1B1 1F2 1B2 1U\n");
  EXPECT_THAT(stuck(schedule, {1}), IsEmpty());
  EXPECT_THAT(stuck(schedule, {}), IsEmpty());
  EXPECT_THAT(stuck(schedule, kRendezvous),
              ElementsAre(HasSubstr("worker 0: 0F1: waits for ever until stage 1 takes up"),
                          HasSubstr("worker 1: 1B0: waits for ever until stage 0 takes up")));
}

TEST(Unfold, WantsAsManyMessagesAsAreSentAhead) {
  const Schedule schedule = parsed(
      "workers 2\nmicro-batches 4\nstage 0 on 0\nstage 1 on 1\nstage 2 on 0\n"
      "row 0: 0F0 0F1 0F2 0F3 2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 0B0 0B1 0B2 0B3 2U 0U\n"
      "row 1: 1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3 1U\n");
  const StageGraph graph = chain_of_stages(3);
  EXPECT_EQ(smallest_buffer(schedule, graph), 2);
  EXPECT_THAT(unfold(schedule, graph, {}, {1}).stuck, testing::Not(IsEmpty()));
}

TEST(Unfold, ALaneWithinAWorkerHoldsWhatItMust) {
  const Schedule schedule = parsed(
      "workers 1\nmicro-batches 2\nstage 0 on 0\nstage 1 on 0\n"
      "row 0: 0F0 0F1 1F0 1F1 1B0 1B1 0B0 0B1 1U 0U\n");
  EXPECT_EQ(smallest_buffer(schedule, chain_of_stages(2)), 2);
  EXPECT_THAT(stuck(schedule, {1}),
              ElementsAre(HasSubstr("worker 0: 0F1: waits for ever until stage 1 takes up")));
  EXPECT_THAT(stuck(schedule, kRendezvous), IsEmpty());
}

// ---- time

TEST(Unfold, TimesAreThoseOfTheCosts) {
  const Schedule schedule = parsed(
      "workers 2\nmicro-batches 1\nstage 0 on 0\nstage 1 on 1\n"
      "row 0: 0F0 0I0 0W0 0U\nrow 1: 1F0 1B0 1U\n");
  const ActionCosts costs{{{2, 3, 5}, {7, 11, 13}}, 0.5, {}};
  const Unfolded unfolded = unfold(schedule, chain_of_stages(2), costs);
  const auto ends = [&](size_t worker) {
    std::vector<double> all;
    for (const Interval& each : unfolded.rows[worker]) all.push_back(each.end);
    return all;
  };
  EXPECT_THAT(ends(0), ElementsAre(2, 37, 42, 42));
  EXPECT_THAT(ends(1), ElementsAre(9.5, 33.5, 33.5));
}

// A place that is not free delays who wants to send, and nobody else.
TEST(Unfold, WaitsForAFreePlace) {
  const Schedule schedule = parsed(
      "workers 2\nmicro-batches 3\nstage 0 on 0\nstage 1 on 1\n"
      "row 0: 0F0 0F1 0F2\nrow 1: 1F0 1F1 1F2\n");
  const ActionCosts costs{{{1, 1, 1}, {10, 1, 1}}, 0, {}};
  const auto begins = [&](Buffering buffering) {
    const Unfolded unfolded = unfold(schedule, chain_of_stages(2), costs, buffering);
    std::vector<double> all;
    for (const Interval& each : unfolded.rows[0]) all.push_back(each.begin);
    return all;
  };
  EXPECT_THAT(begins({}), ElementsAre(0, 1, 2));
  EXPECT_THAT(begins({2}), ElementsAre(0, 1, 2));
  EXPECT_THAT(begins({1}), ElementsAre(0, 1, 2));
  // The second is sent once the first is taken up and done with: worker 1 comes to it at 11.
  EXPECT_THAT(begins(kRendezvous), ElementsAre(0, 1, 11));
}

// ---- costs as text

TEST(ActionCosts, AreReadAsWritten) {
  EXPECT_EQ(parse_costs("1,1.2,0.8").others, (StageCosts{1, 1.2, 0.8}));
  EXPECT_EQ(parse_costs("1,2,3,0.5").transfer, 0.5);
  const ActionCosts costs = read_costs(
      R"({"kerf_costs": 1, "COMM": 2, "stages": [{"F": 1, "I": 2, "W": 3}, {"F": 4, "I": 5,
          "W": 6}]})",
      "costs.json");
  EXPECT_THAT(costs.stages, ElementsAre(StageCosts{1, 2, 3}, StageCosts{4, 5, 6}));
  EXPECT_EQ(costs.transfer, 2);
}

TEST(ActionCosts, WrittenReadBack) {
  const ActionCosts costs{{{1, 2.0 / 3, 3e-5}, {0, 1e-9, 1e300}}, 0.1};
  const ActionCosts back = read_costs(write_costs(costs), "costs.json");
  EXPECT_THAT(back.stages, ElementsAre(StageCosts{1, 2.0 / 3, 3e-5}, StageCosts{0, 1e-6, 1e6}));
  EXPECT_EQ(back.transfer, 0.1);
  for (const double transfer : {0.0, 5e-7, 1e300})  // what a clock may tell of it
    EXPECT_NO_THROW(read_costs(write_costs({{{1, 1, 1}}, transfer}), "costs.json"));
}

TEST(ActionCosts, MayHaveUpdates) {
  const ActionCosts back = read_costs(write_costs({{{1, 1, 1, 0.5}, {1, 1, 1}}}), "costs.json");
  EXPECT_THAT(back.stages, ElementsAre(StageCosts{1, 1, 1, 0.5}, StageCosts{1, 1, 1, 0}));
  EXPECT_EQ(back.of({0, ActionKind::kUpdate}), 0.5);
}

TEST(ActionCosts, RefuseWhatIsNone) {
  for (const char* text : {"", "1", "1,1", "1,1,1,1,1", "1,1,x", "1,,1", "1,1,1,", "nan,1,1",
                           "inf,1,1", "1e-7,1,1", "-1,1,1", "1,1,1,-1", "1e300,1,1", " 1,1,1"})
    EXPECT_THROW(parse_costs(text), Error) << text;
  for (const char* text :
       {"{}", R"({"kerf_costs": 2, "stages": []})", R"({"kerf_costs": 1, "stages": []})",
        R"({"kerf_costs": 1, "stages": [{"F": 1, "I": 1}]})",
        R"({"kerf_costs": 1, "stages": [{"F": 1, "I": 1, "W": 1e-7}]})",
        R"({"kerf_costs": 1, "stages": [{"F": 1, "I": 1, "W": 1, "B": 2}]})"})
    EXPECT_THROW(read_costs(text, "costs.json"), Error) << text;
}

}  // namespace
}  // namespace kerf::schedmp
