// Sums on the way: a stage sends one tensor for the gradient of a value, however many of its
// operators read it; partial sums that several parts need are reduced and gathered in slices; and
// no bit of any result changes.
#include "partitioner/sums.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "partitioner/builder.h"
#include "partitioner/graph_plan.h"
#include "partitioner/model_graph.h"
#include "partitioner/stage_price.h"
#include "partitioner/zoo.h"
#include "tests/partitioner/random_cut.h"
#include "tests/partitioner/step_checks.h"

namespace kerf::partitioner {
namespace {

using ops::Layout;

int pick(Random& random, int below) {
  return std::uniform_int_distribution<int>(0, below - 1)(random);
}

// Every value is as wide, and any earlier one may be read again, twice by one operator, too.
Model random_skips(Random& random) {
  Builder b("skips");
  std::vector<ValueId> values{b.gemm(b.input("x", {ops::kBatch, 5}), 6)};
  std::vector<bool> read{false};
  const auto any = [&] {
    const auto i = static_cast<size_t>(pick(random, static_cast<int>(values.size())));
    read[i] = true;
    return values[i];
  };
  for (int left = 6 + pick(random, 10); left > 0; --left) {
    const int kind = pick(random, 4);
    const ValueId x = any();
    values.push_back(kind == 0 ? b.relu(x) : kind == 1 ? b.gemm(x, 6) : b.add(x, any()));
    read.push_back(false);
  }
  ValueId scores = -1;
  for (size_t i = 0; i < values.size(); ++i)
    if (!read[i]) scores = scores < 0 ? values[i] : b.add(scores, values[i]);
  b.loss(b.gemm(scores, 4));
  return b.build();
}

// The nodes in a random order in which each comes after what it reads; the model's own every other
// time.
std::vector<NodeId> random_order(const Model& model, Random& random) {
  std::vector<NodeId> order(static_cast<size_t>(model.nodes()));
  std::iota(order.begin(), order.end(), 0);
  if (pick(random, 2) == 0) return order;
  std::vector<bool> done(order.size());
  std::vector<NodeId> result;
  while (result.size() < order.size()) {
    const NodeId node = order[static_cast<size_t>(pick(random, model.nodes()))];
    const auto& inputs = model.node(node).inputs;
    const bool ready = std::all_of(inputs.begin(), inputs.end(), [&](ValueId value) {
      const NodeId producer = model.value(value).producer;
      return producer < 0 || done[static_cast<size_t>(producer)];
    });
    if (!ready || done[static_cast<size_t>(node)]) continue;
    done[static_cast<size_t>(node)] = true;
    result.push_back(node);
  }
  return result;
}

// Consecutive nodes of the order, whole on a part of their own: by node, its stage.
std::vector<int> random_stages(const Model& model, int stages, Random& random) {
  const std::vector<NodeId> order = random_order(model, random);
  std::vector<int> stage_of(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    stage_of[static_cast<size_t>(order[i])] =
        static_cast<int>(i * static_cast<size_t>(stages) / order.size());
  return stage_of;
}

Plan staged(const Model& model, const std::vector<int>& stage_of, int stages) {
  Division division{.nodes = {}, .largest = 4};
  for (NodeId node = 0; node < model.nodes(); ++node)
    division.nodes.push_back(whole_division(model, node, stage_of[static_cast<size_t>(node)]));
  Plan plan = plan_of(model, division, stages);
  plan.stages.assign(static_cast<size_t>(stages), {});
  for (NodeId node = 0; node < model.nodes(); ++node)
    plan.stages[static_cast<size_t>(stage_of[static_cast<size_t>(node)])].nodes.push_back(node);
  for (int stage = 0; stage < stages; ++stage)
    plan.stages[static_cast<size_t>(stage)].parts = {stage};
  plan.routes = all_routes(model, plan);
  return plan;
}

// Tensors that cross for the gradient of a value. In the order in which the summands are added, a
// stage's sum goes on with it; what a later stage adds after an earlier one comes by itself.
int tensors_back(const Model& model, ValueId value, const std::vector<int>& stage_of) {
  const int maker = stage_of[static_cast<size_t>(model.value(value).producer)];
  std::vector<int> turns;  // the stages, as they take part
  for (auto use = model.uses(value).rbegin(); use != model.uses(value).rend(); ++use)
    turns.push_back(stage_of[static_cast<size_t>(use->node)]);
  if (std::is_sorted(turns.rbegin(), turns.rend())) {  // each adds to what later ones summed
    turns.erase(std::unique(turns.begin(), turns.end()), turns.end());
    return static_cast<int>(
        std::count_if(turns.begin(), turns.end(), [&](int stage) { return stage != maker; }));
  }
  return -1;  // no formula: one for each use at most
}

class LayerCutsOfSkips : public ::testing::TestWithParam<int> {
 protected:
  Random random_{static_cast<Random::result_type>(GetParam())};
  Model model_ = random_skips(random_);
  int stages_ = 2 + GetParam() % 4;
};

TEST_P(LayerCutsOfSkips, AreOneWorkerBitForBit) {
  const Plan plan = staged(model_, random_stages(model_, stages_, random_), stages_);
  expect_same_bits(run(model_, plan), run(model_, plan_of(model_, Cut::kLayer, 1)));
}

TEST_P(LayerCutsOfSkips, SendOneTensorAStageEachWay) {
  const std::vector<int> stage_of = random_stages(model_, stages_, random_);
  const Plan plan = staged(model_, stage_of, stages_);
  for (ValueId value = 0; value < model_.values(); ++value) {
    if (model_.value(value).producer < 0 || model_.uses(value).empty()) continue;
    const int maker = stage_of[static_cast<size_t>(model_.value(value).producer)];
    std::set<int> readers;
    int elsewhere = 0;
    for (const Use& use : model_.uses(value)) {
      const int stage = stage_of[static_cast<size_t>(use.node)];
      readers.insert(stage);
      elsewhere += stage != maker ? 1 : 0;
    }
    readers.erase(maker);
    std::array<size_t, 2> bytes{};
    for (const Route& route : plan.routes)
      if (route.value == value) bytes[route.gradient ? 1 : 0] += message_bytes(model_, route, 4);
    const size_t size = model_.value(value).spec.bytes(4);
    EXPECT_EQ(bytes[0], readers.size() * size);
    const int back = tensors_back(model_, value, stage_of);
    if (back >= 0) {
      EXPECT_EQ(bytes[1], static_cast<size_t>(back) * size) << model_.value(value).name;
    } else {
      EXPECT_LE(bytes[1], static_cast<size_t>(elsewhere) * size) << model_.value(value).name;
    }
  }
}

TEST_P(LayerCutsOfSkips, CostTheirPrice) {
  const std::vector<int> stage_of = random_stages(model_, stages_, random_);
  const Plan plan = staged(model_, stage_of, stages_);
  PlanRequest request;
  request.batch = plan.batch;
  request.micro_batches = plan.micro_batches;
  request.workers = stages_;
  std::vector<std::vector<int>> nodes;
  for (const Stage& stage : plan.stages) nodes.push_back(stage.nodes);
  const GraphPlan priced = price_division(cost_graph_of(model_, request), {nodes});
  std::vector<double> have(nodes.size());  // as the price counts: who reads pays both ways
  const std::vector<Traffic> traffic = predict_traffic(model_, plan, plan.batch);
  for (size_t r = 0; r < traffic.size(); ++r) {
    const Route& route = plan.routes[r];
    if (route.value == kStepVector) continue;
    have[static_cast<size_t>(route.gradient ? route.from : route.to)] +=
        static_cast<double>(traffic[r].bytes);
  }
  for (size_t stage = 0; stage < have.size(); ++stage)
    EXPECT_EQ(have[stage], priced.workers[stage].bytes_in) << stage;
}

INSTANTIATE_TEST_SUITE_P(Seeds, LayerCutsOfSkips, ::testing::Range(1, 61));

// v is read by three stages, twice in each.
//
//   stage 0   v          stage 1   a = v + v    stage 2   b = v + v    stage 3   c = v + v
//                                  -> relu                + a                    + b -> loss
TEST(RunningSums, GoFromStageToStage) {
  Builder b("dense");
  const ValueId v = b.gemm(b.input("x", {ops::kBatch, 5}), 6, "v");
  const ValueId first = b.relu(b.add(v, v, "a"), "a2");
  const ValueId second = b.add(b.add(v, v, "b"), first, "b2");
  b.loss(b.add(b.add(v, v, "c"), second, "c2"));
  const Model m = b.build();
  const Plan plan = staged(m, {0, 1, 1, 2, 2, 3, 3, 3}, 4);
  std::vector<std::pair<int, int>> hops;
  const Sources sources(m, plan.division, stages_of_parts(plan));
  const Sums sums(sources);
  for (const Route& route : plan.routes) {
    if (route.value != v || !route.gradient) continue;
    hops.emplace_back(route.from, route.to);
    ASSERT_EQ(route.pieces.size(), 1U);
    EXPECT_EQ(route.pieces[0].contributions.size(), 2U * static_cast<size_t>(4 - route.from));
    EXPECT_EQ(connector_words(sums, route), route.from == 3   ? "sum -> bridge -> sum"
                                            : route.from == 2 ? "bridge -> sum"
                                                              : "bridge");
  }
  EXPECT_THAT(hops,
              ::testing::UnorderedElementsAre(std::pair(3, 2), std::pair(2, 1), std::pair(1, 0)));
}

// Part 0 adds what a later stage returns of v for itself, and for its replica:
//
//   stage 0   v        on 0 and 1          stage 1   other = v   on 2
//             one = v  on 0                          one + other -> loss
TEST(RunningSums, APieceThatTwoSumsReadTravelsOnce) {
  Builder b("replicas");
  const ValueId v = b.gemm(b.input("x", {ops::kBatch, 5}), 8, "v");
  const ValueId one = b.gemm(b.relu(v, "one"), 4, "fc1");
  const ValueId other = b.gemm(b.relu(v, "other"), 4, "fc2");
  b.loss(b.add(one, other, "sum"));
  const Model m = b.build();
  Plan plan = staged(m, {0, 0, 0, 1, 1, 1, 1}, 2);
  plan.stages[0].parts = {0, 1};
  plan.stages[1].parts = {2};
  plan.binding = {0, 1, 2};
  for (NodeId node = 0; node < m.nodes(); ++node)
    plan.division.nodes[static_cast<size_t>(node)] = whole_division(m, node, node < 3 ? 0 : 2);
  plan.division.nodes[0] = Layout::replicated({0, 1}, 3);
  plan.layouts = layouts_of(m, plan.division);
  plan.routes = all_routes(m, plan);
  std::map<std::pair<int, int>, std::vector<size_t>> summands;  // by piece
  for (const Route& route : plan.routes)
    if (route.value == v && route.gradient)
      for (const Piece& piece : route.pieces)
        summands[{route.from, route.to}].push_back(piece.contributions.size());
  EXPECT_THAT(summands, ::testing::ElementsAre(std::pair(std::pair(0, 1), std::vector<size_t>{2}),
                                               std::pair(std::pair(2, 0), std::vector<size_t>{1})));
  expect_same_bits(run(m, plan), run(m, plan_of(m, Cut::kLayer, 1)));
}

// ---- partial sums

Division all_on_first(const Model& model) {
  Division division{.nodes = {}, .largest = 4};
  for (NodeId node = 0; node < model.nodes(); ++node)
    division.nodes.push_back(whole_division(model, node, 0));
  return division;
}

std::vector<int> first_parts(int count) {
  std::vector<int> parts(static_cast<size_t>(count));
  std::iota(parts.begin(), parts.end(), 0);
  return parts;
}

void divide_over_first(const Model& model, const std::string& node, const std::string& axis,
                       int parts, Division& division) {
  const NodeId id = model.find_node(node);
  const ops::IterationSpace& space = model.op(id).space();
  const int along = space.find(axis);
  const ops::Shape extents = space.extents().with_batch(division.largest);
  division.nodes[static_cast<size_t>(id)] = Layout::split(first_parts(parts), extents.rank(), along,
                                                          ops::split_evenly(extents[along], parts));
}

void replicate_on_first(const Model& model, const std::string& node, int parts,
                        Division& division) {
  const NodeId id = model.find_node(node);
  division.nodes[static_cast<size_t>(id)] =
      Layout::replicated(first_parts(parts), static_cast<int>(model.op(id).space().axes.size()));
}

// By sender, the bytes of a value or of its gradient.
std::map<int, size_t> bytes_sent(const Model& model, const std::vector<Route>& routes,
                                 ValueId value, bool gradient, int64_t samples = 4) {
  std::map<int, size_t> bytes;
  for (const Route& route : routes)
    if (route.value == value && route.gradient == gradient)
      bytes[route.from] += message_bytes(model, route, samples);
  return bytes;
}

// fc1 is replicated; fc2 divides its outputs, fc3 its inputs, as in a column-row pair.
Model pair_model() { return make_zoo_model("mlp", {{8, 60, 12, 60, 10}}); }
Division pair_division(const Model& model, int parts) {
  Division division = all_on_first(model);
  for (const char* node : {"fc1", "relu1"}) replicate_on_first(model, node, parts, division);
  for (const char* node : {"relu3"}) replicate_on_first(model, node, parts, division);
  divide_over_first(model, "fc2", "outputs", parts, division);
  divide_over_first(model, "relu2", "features", parts, division);
  divide_over_first(model, "fc3", "inputs", parts, division);
  divide_over_first(model, "fc4", "outputs", parts, division);
  return division;
}

class ScatteredSums : public ::testing::TestWithParam<int> {};

// Each of R sends 2 (R - 1) / R of a tensor, forward and back: a reduce-scatter and an all-gather.
TEST_P(ScatteredSums, SendTwiceAllButOneSlice) {
  const int parts = GetParam();
  const Model m = pair_model();
  const std::vector<Route> routes = connect(m, pair_division(m, parts));
  for (const auto& [name, gradient] : {std::pair("fc3", false), std::pair("relu1", true)}) {
    const ValueId value = m.node(m.find_node(name)).outputs[0];
    const auto bytes = bytes_sent(m, routes, value, gradient);
    ASSERT_EQ(bytes.size(), static_cast<size_t>(parts));
    const size_t size = m.value(value).spec.bytes(4);
    for (const auto& [part, own] : bytes)
      EXPECT_EQ(own, 2 * size * static_cast<size_t>(parts - 1) / static_cast<size_t>(parts))
          << name << " by " << part;
  }
}

TEST_P(ScatteredSums, EqualOneWorker) {
  const Model m = pair_model();
  const Division division = pair_division(m, GetParam());
  expect_close(run(m, plan_of(m, division, GetParam())), run(m, plan_of(m, Cut::kLayer, 1)), 1e-5F);
  const Model exact = with_sum_loss(m);
  expect_close(run(exact, plan_of(exact, division, GetParam()), {4, 3, 0, 1}, Numbers::kWhole),
               run(exact, plan_of(exact, all_on_first(exact), 1), {4, 3, 0, 1}, Numbers::kWhole),
               0);
}

// Whether one part needs the sum or all do: its summands are added in the order of the boxes.
TEST_P(ScatteredSums, HaveTheBitsOfDirectOnes) {
  const Model m = pair_model();
  const int parts = GetParam();
  Division all = all_on_first(m);
  divide_over_first(m, "fc3", "inputs", parts, all);
  Division one = all;
  replicate_on_first(m, "relu3", parts, all);
  const Plan scattered = plan_of(m, all, parts);
  const Plan direct = plan_of(m, one, parts);
  const auto slices = [](const Plan& plan) {
    return std::any_of(plan.routes.begin(), plan.routes.end(),
                       [](const Route& route) { return route.leg == Leg::kAllGather; });
  };
  EXPECT_EQ(slices(scattered), parts > 2) << "of two, direct is as few bytes";
  EXPECT_FALSE(slices(direct)) << "one part reads it";
  expect_same_bits(run(m, scattered), run(m, direct));
}

INSTANTIATE_TEST_SUITE_P(Parts, ScatteredSums, ::testing::Values(2, 3, 4, 6));

TEST(ScatteredSums, SayWhatTheyAre) {
  const Model m = pair_model();
  const Division division = pair_division(m, 3);
  const Sources sources(m, division);
  const Sums sums(sources);
  std::set<std::string> words;
  const ValueId value = m.node(m.find_node("fc3")).outputs[0];
  for (const Route& route : connect(m, division))
    if (route.value == value && !route.gradient) words.insert(connector_words(sums, route));
  EXPECT_THAT(words, ::testing::ElementsAre("bridge -> concat (all-gather)",
                                            "slice -> bridge -> sum (reduce-scatter)"));
}

}  // namespace
}  // namespace kerf::partitioner
