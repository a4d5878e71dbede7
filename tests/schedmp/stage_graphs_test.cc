// Schedules over stages that are no chain: properties of random graphs of stages, and of plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "partitioner/builder.h"
#include "partitioner/cut.h"
#include "schedmp/interpreter.h"
#include "schedmp/schedules.h"
#include "schedmp/search/plan_costs.h"
#include "schedmp/simulate.h"
#include "schedmp/staircase.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {
namespace {

using partitioner::chain_of_stages;
using partitioner::Model;
using partitioner::Plan;
using partitioner::StageGraph;
using testing::ElementsAre;
using testing::IsEmpty;

using Random = std::mt19937;
int draw(Random& random, int below) {
  return std::uniform_int_distribution<int>(0, below - 1)(random);
}

// Each stage reads some of those before it. Gradients come from the readers, straight or as a
// running sum through all of them; or there are none.
StageGraph random_graph(Random& random) {
  const int stages = 1 + draw(random, 8);
  const int density = 1 + draw(random, 4);
  StageGraph graph = chain_of_stages(0);
  graph.reads.resize(static_cast<size_t>(stages));
  std::vector<std::set<int>> gradients(graph.reads.size());
  for (int from = 0; from < stages; ++from) {
    int last = from;  // of those that sum
    const int how = draw(random, 5);
    for (int to = from + 1; to < stages; ++to) {
      if (draw(random, 4) >= density) continue;
      graph.reads[static_cast<size_t>(to)].push_back(from);
      if (how == 0) continue;
      gradients[static_cast<size_t>(how == 1 ? last : from)].insert(to);
      last = to;
    }
  }
  for (const auto& each : gradients) graph.gradients.emplace_back(each.begin(), each.end());
  return graph;
}

// Workers have one stage each, or several at random; some stages have two workers.
std::vector<std::vector<int>> random_groups(int stages, Random& random) {
  std::vector<std::vector<int>> groups;
  const int workers = 1 + draw(random, stages);
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<int>& group =
        groups.emplace_back(1, stage < workers ? stage : draw(random, workers));
    if (const int other = draw(random, workers); draw(random, 3) == 0 && other != group[0])
      group.push_back(other);
  }
  return groups;
}

Pipeline one_worker_each(StageGraph graph) {
  std::vector<std::vector<int>> groups;
  for (int stage = 0; stage < graph.stages(); ++stage) groups.push_back({stage});
  return {std::move(groups), std::move(graph)};
}

// By trying every path.
int most_hops(const Pipeline& pipeline, int from) {
  int most = 0;
  for (int to = from + 1; to < pipeline.graph.stages(); ++to) {
    const auto& reads = pipeline.graph.reads[static_cast<size_t>(to)];
    const auto& gradients = pipeline.graph.gradients[static_cast<size_t>(from)];
    if (std::count(reads.begin(), reads.end(), from) +
            std::count(gradients.begin(), gradients.end(), to) ==
        0)
      continue;
    const bool elsewhere =
        pipeline.groups[static_cast<size_t>(from)] != pipeline.groups[static_cast<size_t>(to)];
    most = std::max(most, (elsewhere ? 1 : 0) + most_hops(pipeline, to));
  }
  return most;
}

int most_in_flight(const Schedule& schedule, int stage) {
  const int worker = schedule.groups[static_cast<size_t>(stage)].back();
  int now = 0, most = 0;
  for (const Action& action : schedule.rows[static_cast<size_t>(worker)]) {
    if (action.stage != stage) continue;
    if (action.kind == ActionKind::kForward) most = std::max(most, ++now);
    if (action.kind == ActionKind::kBackward) --now;
  }
  return most;
}

TEST(StageGraphs, HopsAreThoseOfTheLongestPath) {
  Random random(1);
  for (int tries = 0; tries < 200; ++tries) {
    StageGraph graph = random_graph(random);
    const Pipeline pipeline{random_groups(graph.stages(), random), graph};
    for (const Pipeline& each : {pipeline, one_worker_each(graph)}) {
      const std::vector<int> hops = hops_to_the_end(each);
      for (int stage = 0; stage < graph.stages(); ++stage)
        EXPECT_EQ(hops[static_cast<size_t>(stage)], most_hops(each, stage));
    }
  }
  EXPECT_THAT(hops_to_the_end(one_worker_each(chain_of_stages(4))), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(hops_to_the_end(chain_of({{0}, {0}, {1}, {0}})), ElementsAre(2, 2, 1, 0));
}

TEST(StageGraphs, EveryScheduleIsLegalAndNobodyWaitsForEver) {
  Random random(2);
  for (int tries = 0; tries < 300; ++tries) {
    const StageGraph graph = random_graph(random);
    const Pipeline pipeline{random_groups(graph.stages(), random), graph};
    for (const std::string& name : schedule_names()) {
      if (shape_of(name).placement != Placement::kAnywhere) continue;
      const Schedule schedule = make_schedule(name, pipeline, 1 + draw(random, 9));
      EXPECT_THAT(check_order(schedule), IsEmpty()) << name;
      EXPECT_THAT(unfold(schedule, graph).stuck, IsEmpty()) << name;
    }
  }
}

TEST(StageGraphs, InFlightIsWhatTheRowsHave) {
  Random random(3);
  for (int tries = 0; tries < 200; ++tries) {
    const StageGraph graph = random_graph(random);
    const Pipeline pipeline{random_groups(graph.stages(), random), graph};
    const std::vector<int> hops = hops_to_the_end(pipeline);
    const int m = 1 + draw(random, 9);
    for (const std::string name : {"gpipe", "1f1b"}) {
      const Schedule schedule = make_schedule(name, pipeline, m);
      const auto by_name = in_flight_of(name)->of(pipeline, m);
      const auto by_rows = in_flight_of(schedule)->of(pipeline, m);
      for (int stage = 0; stage < graph.stages(); ++stage) {
        const int to_go = hops[static_cast<size_t>(stage)];
        const int most = most_in_flight(schedule, stage);
        EXPECT_EQ(by_name[static_cast<size_t>(stage)].kept, most) << name;
        EXPECT_EQ(by_rows[static_cast<size_t>(stage)].kept, most) << name;
        if (name == "1f1b") {
          EXPECT_EQ(most, std::min(m, to_go + 1));
        }
      }
    }
  }
}

// 1F1B whose warm-up goes by the number of stages that come later, as if they were a chain.
Schedule by_number(const Pipeline& pipeline, int m) {
  return one_f_one_b({pipeline.groups, chain_of_stages(pipeline.graph.stages())}, m);
}

// With costs that are all alike; on a chain it is the same schedule.
TEST(StageGraphs, NeitherHoldsMoreNorTakesLongerThanAWarmUpByNumber) {
  Random random(4);
  int fewer = 0;
  for (int tries = 0; tries < 300; ++tries) {
    const Pipeline pipeline = one_worker_each(random_graph(random));
    const int m = 1 + draw(random, 12);
    const Schedule schedule = one_f_one_b(pipeline, m);
    const Schedule old = by_number(pipeline, m);
    for (int stage = 0; stage < pipeline.graph.stages(); ++stage) {
      EXPECT_LE(most_in_flight(schedule, stage), most_in_flight(old, stage));
      fewer += most_in_flight(schedule, stage) < most_in_flight(old, stage) ? 1 : 0;
    }
    EXPECT_LE(bubble(schedule, pipeline.graph).step, bubble(old, pipeline.graph).step + 1e-12);
  }
  EXPECT_GE(fewer, 300);
}

//   0 ─> 1 ─┐
//           ├─> 4
//   2 ─> 3 ─┘
TEST(StageGraphs, TowersWarmUpSideBySide) {
  const StageGraph towers{{{}, {0}, {}, {2}, {1, 3}}, {{1}, {4}, {3}, {4}, {}}};
  EXPECT_EQ(draw_staircase(one_f_one_b(one_worker_each(towers), 3), towers),
            "worker 0  0F0 0F1 0F2                 0B0         0B1         0B2     0U\n"
            "worker 1      1F0 1F1         1B0     1F2 1B1         1B2     1U\n"
            "worker 2  2F0 2F1 2F2                 2B0         2B1         2B2     2U\n"
            "worker 3      3F0 3F1         3B0     3F2 3B1         3B2     3U\n"
            "worker 4          4F0 4B0     4F1 4B1     4F2 4B2     4U\n");
}

// In turn: each worker takes up the next micro-batch while another has the last one. Where an edge
// skips a worker, and would want a slot more, each goes through all stages first.
TEST(StageGraphs, GPipeOnSharedWorkersGoesSideBySide) {
  const StageGraph graph = chain_of_stages(4);
  EXPECT_EQ(draw_staircase(gpipe({{{0}, {1}, {0}, {1}}, graph}, 2), graph),
            "worker 0  0F0 0F1 2F0 2F1             2B0     2B1     0B0     0B1     2U 0U\n"
            "worker 1      1F0 1F1 3F0 3F1 3B0     3B1     1B0     1B1     3U 1U\n");
  const Schedule one_by_one = parse_schedule(
      "kerf-schedule 1\nname x\nworkers 1\nmicro-batches 2\nstage 0 on 0\nstage 1 on 0\n"
      "stage 2 on 0\nrow 0: 0F0 2F0 0F1 2F1 2B0 0B0 2B1 0B1 2U 0U\n",
      "test");
  for (const int from : {0, 1}) {
    StageGraph skipping = graph;
    skipping.reads[3] = {from, 2};
    EXPECT_EQ(gpipe({{{0}, {1}, {0}, {1}}, skipping}, 2).rows[0], one_by_one.rows[0]);
  }
}

// Equal work on p workers of v stages each, in turn: it takes M + (p - 1) / v forwards and
// backwards of a worker's stages under GPipe, and little more under 1F1B; in blocks as with one
// stage each.
TEST(StageGraphs, SharedWorkersFillThePipelineSooner) {
  // Of a worker's forward and backward through all of its stages.
  const auto steps = [](const Schedule& schedule) {
    return schedule.micro_batches / (1 - bubble(schedule, chain_of_stages(schedule.stages())).step);
  };
  for (const int p : {2, 3, 4})
    for (const int v : {1, 2, 3})
      for (const int m : {p, 2 * p, 4 * p}) {
        SCOPED_TRACE(kerf::format("{} workers, {} stages each, {} micro-batches", p, v, m));
        std::vector<std::vector<int>> in_turn, in_blocks;
        for (int stage = 0; stage < p * v; ++stage) {
          in_turn.push_back({stage % p});
          in_blocks.push_back({stage / v});
        }
        const double ideal = m + static_cast<double>(p - 1) / v;
        EXPECT_NEAR(steps(gpipe(chain_of(in_turn), m)), ideal, 1e-9);
        EXPECT_LE(steps(one_f_one_b(chain_of(in_turn), m)), ideal + 1);
        EXPECT_NEAR(steps(gpipe(chain_of(in_blocks), m)), m + p - 1, 1e-9);
        EXPECT_NEAR(steps(one_f_one_b(chain_of(in_blocks), m)), m + p - 1, 1e-9);
      }
}

// Two inputs, a tower of two stages on each, and a stage where they meet.
struct Towers {
  Towers() : model(make_model()) {
    request.workers = 5;
    request.batch = 24;
    request.micro_batches = 6;
    request.given_stages = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
    plan = std::get<Plan>(partitioner::make_plan(model, request, *in_flight_of("1f1b")));
  }
  static Model make_model() {
    partitioner::Builder b("towers");
    std::vector<partitioner::ValueId> tops;
    for (const std::string side : {"left", "right"}) {
      partitioner::ValueId x = b.input(side, {ops::kBatch, 256});
      for (const std::string layer : {"1", "2"})
        x = b.relu(b.gemm(x, 256, side + layer), side + layer + "_relu");
      tops.push_back(x);
    }
    b.loss(b.gemm(b.add(tops[0], tops[1], "sum"), 10, "head"));
    return b.build();
  }

  Verdict proof(const Schedule& schedule) const {
    return verify(model, plan, lower(model, plan, lowering_for(schedule)), schedule,
                  request.setting);
  }
  double step(const Schedule& schedule) const {
    return simulate(model, plan, lower(model, plan, lowering_for(schedule)), schedule,
                    request.speed)
        ->step_seconds;
  }

  Model model;
  partitioner::PlanRequest request;
  Plan plan;
};

TEST(StageGraphs, OfAPlanAreItsRoutes) {
  const Towers towers;
  EXPECT_EQ(stage_graph_of(towers.model, towers.plan),
            (StageGraph{{{}, {0}, {}, {2}, {1, 3}}, {{1}, {4}, {3}, {4}, {}}}));
}

TEST(StageGraphs, TowersOfAPlanTakeLessMemoryAndNoMoreTime) {
  const Towers towers;
  const Pipeline pipeline = pipeline_of(towers.model, towers.plan);
  const Schedule schedule = make_schedule("1f1b", towers.model, towers.plan);
  const Verdict now = towers.proof(schedule);
  const Verdict before = towers.proof(by_number(pipeline, 6));
  ASSERT_THAT(now.problems, IsEmpty());
  ASSERT_THAT(before.problems, IsEmpty());
  for (size_t worker = 0; worker < 4; ++worker) {
    EXPECT_LE(now.peak_bytes[worker], before.peak_bytes[worker]);
    EXPECT_EQ(now.peak_bytes[worker] < before.peak_bytes[worker], worker < 2) << worker;
    EXPECT_EQ(now.peak_bytes[worker], towers.plan.workers[worker].peak_bytes) << "as predicted";
  }
  EXPECT_LE(towers.step(schedule), towers.step(by_number(pipeline, 6)) * (1 + 1e-9));
}

// Two inputs, a stage on each, and one that works on the first before it reads the second.
struct Meeting {
  Meeting() : model(make_model()) {
    request.workers = 3;
    request.batch = 24;
    request.micro_batches = 6;
    request.given_stages = {0, 0, 1, 1, 2, 2, 2, 2};
  }
  static Model make_model() {
    partitioner::Builder b("meeting");
    const auto stage = [&](const std::string& side) {
      return b.relu(b.gemm(b.input(side, {ops::kBatch, 256}), 256, side + "_gemm"), side + "_relu");
    };
    const partitioner::ValueId left = stage("left");
    const partitioner::ValueId right = stage("right");
    b.loss(b.gemm(b.add(b.gemm(left, 256, "after"), right, "sum"), 10, "head"));
    return b.build();
  }
  // Where the second stage's worker takes so many times as long as any other.
  ActionCosts costs(double times) const {
    Plan plan = std::get<Plan>(partitioner::make_plan(model, request, *in_flight_of("1f1b")));
    plan.request->capacities.workers.assign(3, partitioner::Capacity{});
    plan.request->capacities.workers[1].speed = 1 / times;
    return costs_of_plan(model, plan, lower(model, plan));
  }

  Model model;
  partitioner::PlanRequest request;
};

// What a stage waits for a slower one, having begun, is not what it costs.
TEST(StageGraphs, CostsOfAStageAreWithoutWhatItWaitsForOthers) {
  const Meeting meeting;
  const ActionCosts alike = meeting.costs(1);
  const ActionCosts slower = meeting.costs(1000);
  EXPECT_NEAR(slower.stages[1].forward, 1000 * alike.stages[1].forward, 1e-6);
  for (const size_t stage : {0, 2}) {
    EXPECT_NEAR(slower.stages[stage].forward, alike.stages[stage].forward, 1e-12) << stage;
    EXPECT_NEAR(slower.stages[stage].input_gradient, alike.stages[stage].input_gradient, 1e-12);
    EXPECT_NEAR(slower.stages[stage].weight_gradient, alike.stages[stage].weight_gradient, 1e-12);
  }
}

// Four rows of 256 floats a micro-batch, from each stage to the one that reads it, and back.
TEST(StageGraphs, CostsOfAPlanHaveItsBytes) {
  const Towers towers;
  const std::vector<partitioner::Part> parts = lower(towers.model, towers.plan);
  const ActionCosts costs = costs_of_plan(towers.model, towers.plan, parts);
  const double message = 4 * 256 * 4;
  for (size_t stage = 0; stage < 4; ++stage) EXPECT_EQ(costs.bytes[stage].forward, message);
  EXPECT_EQ(costs.bytes[4].forward, 0);
  for (const size_t stage : {1, 3, 4}) EXPECT_EQ(costs.bytes[stage].input_gradient, message);
  EXPECT_EQ(costs.bytes[0].input_gradient, 0);
  // What a stage receives, its gradient of weights reads where it was put.
  EXPECT_GE(costs.bytes[0].kept, message);
  EXPECT_GE(costs.bytes[1].kept, 2 * message) << "and its own result";
}

}  // namespace
}  // namespace kerf::schedmp
